#!/bin/sh
# Migrates Temporal's two databases to the schema of this version. Safe to run again.
# `make cluster` sets SECRETS and SCHEMA; in the container they have their defaults.
set -eu
SQL_PASSWORD="$(cat "${SECRETS:-/run/secrets}/temporal_db_password")"
export SQL_PASSWORD

schema() {
  temporal-sql-tool --database "$1" setup-schema --version 0.0
  temporal-sql-tool --database "$1" update-schema --schema-dir "${SCHEMA:-/etc/temporal/schema}/postgresql/v12/$2/versioned"
}

schema temporal temporal
schema temporal_visibility visibility
