package dev.sealway.session.nativeprotocol;

import dev.sealway.wire.Forms;

/** The wires whose messages are streams of frames: what sets them apart. */
enum Protocol {
    /** Wire 3: requests of a session. */
    SESSION("3", Forms.KID_PREFIX, "session_expired"),
    /** Wire 4: requests to a key of the service. */
    ONE_SHOT("4", KeyConfig.KID_PREFIX, "key_retired");

    /** Value of {@code X-Seal}. */
    final String number;
    /** Prefix of a kid. */
    final String kidPrefix;
    /** Code of the problem, unproven, after which a safe request is sent again under other keys. */
    final String lostKeys;

    Protocol(String number, String kidPrefix, String lostKeys) {
        this.number = number;
        this.kidPrefix = kidPrefix;
        this.lostKeys = lostKeys;
    }

    String label(String name) {
        return "sealway/" + number + " " + name;
    }
}
