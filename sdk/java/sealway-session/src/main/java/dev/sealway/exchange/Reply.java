package dev.sealway.exchange;

import dev.sealway.session.SessionRecord;

/** The state of a request that sealing its answer needs. */
public interface Reply {
    /** Returns the session. */
    SessionRecord session();

    /** Returns the way to seal an answer with this status. */
    AnswerSeal answer(int status);
}
