#!/bin/sh
# Migrates Temporal's two databases to the schema of this version. Safe to run again.
set -eu
SQL_PASSWORD="$(cat /run/secrets/temporal_db_password)"
export SQL_PASSWORD

schema() {
  temporal-sql-tool --database "$1" setup-schema --version 0.0
  temporal-sql-tool --database "$1" update-schema --schema-dir "/etc/temporal/schema/postgresql/v12/$2/versioned"
}

schema temporal temporal
schema temporal_visibility visibility
