package dev.sealway.mle;

/** Directions of messages. */
public enum Message {
    /** From the client to the server. */
    REQUEST,
    /** From the server to the client. */
    ANSWER
}
