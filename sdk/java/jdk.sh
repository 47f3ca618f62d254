# Sourced: sets JAVA_HOME to a JDK of 21 or newer, java_major, and what Maven needs on it, or ends with a message.
is_new() {
    [ -x "$1/bin/javac" ] || return 1
    java_major=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$1/release" 2>/dev/null)
    [ "${java_major:-0}" -ge 21 ]
}
found=
for home in "${JAVA_HOME:-}" /usr/lib/jvm/*25* /usr/lib/jvm/* /opt/java/* /opt/jdk*; do
    if [ -n "$home" ] && is_new "$home"; then found=$home; break; fi
done
if [ -z "$found" ] && command -v javac >/dev/null; then
    home=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
    if is_new "$home"; then found=$home; fi
fi
if [ -z "$found" ]; then
    echo "sealway: no JDK of version 21 or newer: install one and set JAVA_HOME to it (JAVA_HOME is '${JAVA_HOME:-}')" >&2
    exit 2
fi
export JAVA_HOME="$found"
# A build is over before the second compiler pays.
MAVEN_OPTS="-XX:+UseSerialGC -XX:TieredStopAtLevel=1 ${MAVEN_OPTS:-}"
# Maven 3.8 on a newer JDK warns of what its own libraries do.
if [ "$java_major" -ge 24 ]; then
    MAVEN_OPTS="--sun-misc-unsafe-memory-access=allow --enable-native-access=ALL-UNNAMED $MAVEN_OPTS"
fi
export MAVEN_OPTS
