-- `row_version` 3: what wraps the session's key authenticates all other columns that say who a session is of and how long
-- it lives. Absent: an earlier release wrote the row, and nothing but its id is authenticated. `lineage`: the first session
-- of the chain that it was renewed in, absent where it is the first. A program of the release before names its columns, so
-- it neither writes nor reads these; it cannot read the rows of this one.
ALTER TABLE sealway.sessions
    ADD COLUMN row_version smallint,
    ADD COLUMN lineage     text COLLATE "C";
