package dev.sealway.exchange;

import dev.sealway.session.SessionRecord;

/** The part of a request that sealing its answer needs. */
public interface Reply {
    /** The session. */
    SessionRecord session();

    /** The way to seal a handler's answer of this status. */
    AnswerSeal answer(int status);
}
