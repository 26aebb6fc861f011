#!/bin/sh
# Draw the secrets of compose.yaml into deploy/secrets, once: what is there stays.
#   ROLE.toml     a configuration (MURMUREC_CONFIG) with the role's user and password at Kafka
#   kafka-users   the same users for the broker;  admin-token, state-secret: of the workers
# Containers read the files as other users, so it is the folder that keeps everyone else out.
set -eu
umask 077
cd "$(dirname "$0")"
if [ -d secrets ]; then
  echo "deploy/secrets is there: nothing was drawn"
  exit
fi
drawn=$(mktemp -d ./secrets.XXXXXX)
trap 'rm -rf "$drawn"' EXIT # nothing is left half written
trap 'exit 1' HUP INT TERM
word() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

token=$(word)
printf '%s' "$token" > "$drawn/admin-token"
word > "$drawn/state-secret"
for role in admin worker gateway device reader editor operator; do
  password=$(word)
  echo "$role $password" >> "$drawn/kafka-users"
  cat > "$drawn/$role.toml" <<END
[broker]
kafka = { "security.protocol" = "SASL_PLAINTEXT", "sasl.mechanism" = "SCRAM-SHA-512", "sasl.username" = "$role", "sasl.password" = "$password" }
END
done
for role in worker gateway; do
  printf '[admin]\ntoken = "%s"\n' "$token" >> "$drawn/$role.toml"
done
chmod 0644 "$drawn"/*
mv "$drawn" secrets
echo "deploy/secrets: drawn"
