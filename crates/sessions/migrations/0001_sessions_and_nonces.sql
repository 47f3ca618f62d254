-- Everything of Sealway lives in the schema `sealway`. Migrations only ever add: programs of two versions may share a
-- database while one replaces the other.

CREATE TABLE sealway.sessions (
    id         text COLLATE "C" PRIMARY KEY,
    wire       smallint NOT NULL,
    client_id  text,
    subject    text,
    created_ms bigint NOT NULL,
    expires_ms bigint NOT NULL,
    kek_id     text NOT NULL,
    -- IV, ciphertext and tag of the session's key; empty once the session is revoked.
    wrapped    bytea NOT NULL,
    -- When it was revoked. The row stays until it expires, so that every process can be told.
    revoked_ms bigint
);
CREATE INDEX sessions_expires ON sealway.sessions (expires_ms);
CREATE INDEX sessions_revoked ON sealway.sessions (expires_ms) WHERE revoked_ms IS NOT NULL;

CREATE TABLE sealway.nonces (
    key        bytea PRIMARY KEY,
    sealed     boolean NOT NULL,
    stamp_ms   bigint NOT NULL,
    expires_ms bigint NOT NULL
);
CREATE INDEX nonces_expires ON sealway.nonces (expires_ms);

-- Numbers about the store itself. `forgotten_ms`: nonces that expired up to then may be gone. `counts`: how often the
-- other tables were counted; `counted_ms`: when they last were, with what result.
CREATE TABLE sealway.meta (
    name  text PRIMARY KEY,
    value bigint NOT NULL
);
INSERT INTO sealway.meta VALUES
    ('forgotten_ms', 0), ('counts', 0), ('counted_ms', 0), ('sessions', 0), ('nonces_sealed', 0), ('nonces_init', 0);

-- For each key-encryption key that ever wrapped: a known value wrapped under it, to tell a wrong key from a bad row.
CREATE TABLE sealway.keks (
    kek_id  text PRIMARY KEY,
    wrapped bytea NOT NULL
);
