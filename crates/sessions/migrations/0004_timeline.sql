-- `timeline`: that of the server on which all nonces were taken, 0 before it is known. It changes when a standby is promoted
-- or a backup is restored. `lost_ms`: nonces stamped up to then may have been lost by such a change.
INSERT INTO sealway.meta VALUES ('timeline', 0), ('lost_ms', 0);
