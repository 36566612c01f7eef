#!/bin/sh
# The PostgreSQL image runs this once, on an empty volume. It creates a database and a role for
# Hookfast, and two databases and a role for Temporal. Neither role is a superuser or can read the
# other's data.
set -eu

make_role() {
  # psql reads the files itself, so that no password is on a command line
  psql --set ON_ERROR_STOP=1 --username postgres --dbname postgres <<SQL
\\set password \`cat ${SECRETS:-/run/secrets}/$2\`
CREATE ROLE $1 LOGIN PASSWORD :'password';
SQL
}

make_database() {
  psql --set ON_ERROR_STOP=1 --username postgres --dbname postgres <<SQL
CREATE DATABASE $1 OWNER $2 TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8';
REVOKE ALL ON DATABASE $1 FROM PUBLIC;
SQL
}

make_role hookfast hookfast_db_password
make_role temporal temporal_db_password
make_database hookfast hookfast
make_database temporal temporal
make_database temporal_visibility temporal
