#!/bin/sh
# Creates the passwords and keys of docker-compose.yml. Existing files are not changed.
#
# Back up the folder, above all encryption_keys: without it every stored secret is lost.
set -eu
umask 022
folder="${1:-$(dirname "$0")/secrets}"
mkdir -p "$folder"
# Compose mounts a file with its mode, and each container has a different user. So the files are
# readable, and the folder denies access to other users of this machine.
chmod 700 "$folder"

random() { openssl rand -hex 24; }
keep() {
  if [ ! -s "$folder/$1" ]; then
    printf '%s\n' "$2" > "$folder/$1.new"
    chmod 444 "$folder/$1.new"
    mv "$folder/$1.new" "$folder/$1"
    echo "made $folder/$1"
  fi
}

keep postgres_password "$(random)"
keep hookfast_db_password "$(random)"
keep temporal_db_password "$(random)"
keep database_url "postgresql://hookfast:$(cat "$folder/hookfast_db_password")@postgresql:5432/hookfast"
keep operator_key "hf_$(openssl rand -hex 32)"
keep encryption_keys "$(openssl rand -base64 32)"
keep metrics_token "$(random)"
keep grafana_admin_password "$(random)"
keep smtp_url "smtp://mailpit:1025"
