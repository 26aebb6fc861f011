#!/bin/sh
# Start the broker of compose.yaml: with the users of /run/secrets/kafka-users (a name and a password
# a line) when its disk is empty, and with its own login, in files of /tmp alone.
set -eu
umask 077
users=/run/secrets/kafka-users
password=$(sed -n 's/^admin //p' "$users")
login="username=\"admin\" password=\"$password\";"
scram="scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule"

cat /etc/murmurec/server.properties > /tmp/server.properties
for listener in controller host broker; do
  echo "listener.name.$listener.$scram required $login" >> /tmp/server.properties
done
# Of the health check.
cat > /tmp/admin.properties <<END
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required $login
END

set --
while read -r name secret; do
  set -- "$@" --add-scram "SCRAM-SHA-512=[name=$name,password=$secret]"
done < "$users"
# It prints what it derives from the passwords.
/opt/kafka/bin/kafka-storage.sh format --standalone --ignore-formatted \
  --cluster-id "$CLUSTER_ID" --config /tmp/server.properties "$@" \
  > /dev/null
exec /opt/kafka/bin/kafka-server-start.sh /tmp/server.properties
