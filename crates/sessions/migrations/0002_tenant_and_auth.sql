-- Whose a session is, and how its client was recognised: `bearer`, `dpop`, `certificate`. A program of the release before
-- names its columns, so it neither writes nor reads these; absent says nobody, and not at all.
ALTER TABLE sealway.sessions
    ADD COLUMN tenant text,
    ADD COLUMN auth   text;
