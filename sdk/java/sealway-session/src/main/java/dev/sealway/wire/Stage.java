package dev.sealway.wire;

/** Stages of a client's call, by which an error says how far the call got. */
public enum Stage {
    /** An option is wrong, or the request cannot be sealed. Nothing was sent. */
    CONFIGURATION("configuration"),
    /** A session was being agreed, renewed or ended, or its service verified. The request was not sent. */
    AGREEMENT("agreement"),
    /** From the departure of the sealed request to the end of its answer. */
    CALL("call");

    private final String text;

    Stage(String text) {
        this.text = text;
    }

    /** Returns the stage's word in logs and metrics, the same in all SDKs. */
    public String text() {
        return text;
    }
}
