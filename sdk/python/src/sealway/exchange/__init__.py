"""A sealed request at a server, as a value, whichever protocol it speaks: bytes go in, decisions come out. A protocol is a
variant of this package; its driver, and the application behind it, need not know which one a request speaks.

    headers - Exchange.begin -> session_id - Exchange.session -> Opening, Stream
    body - Stream.read, Stream.end -> pieces, the first of them - Opening.open -> ReplayGuard[PlainRequest]
    the session again - Opening.readmit; the store's Admission - ReplayGuard.release -> PlainRequest(inner, first, reply)
    the application's answer - Reply.answer -> AnswerSeal

A refusal at any step is an error; `Rejection.answer` is all that the client receives of it. Pure: time and
randomness come as arguments, and nothing here waits, draws or connects.
"""
