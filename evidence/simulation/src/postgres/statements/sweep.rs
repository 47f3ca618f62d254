//! Statements of sweeps, and of the move to another key-encryption key.

use super::{Answer, Context, ROW, Statement, bytes, int, limit, list, rows, session_row, string, unnest};
use crate::postgres::tables::{SessionRow, Write};
use crate::postgres::wire::Kind::{Bool, Byteas, Int8, Int8s, Text, Texts};
use crate::postgres::wire::Value;

/// The rows of `sealway.meta` that a count writes.
const COUNTS: [&str; 5] = ["counts", "counted_ms", "sessions", "nonces_sealed", "nonces_init"];

pub(super) const SWEEP: &[Statement] = &[
    Statement {
        name: "lock",
        sql: "SELECT pg_try_advisory_lock($1)",
        parameters: &[Int8],
        columns: Some(&[Bool]),
        tag: "SELECT",
        run: lock,
    },
    Statement {
        name: "time",
        sql: "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
        parameters: &[],
        columns: Some(&[Int8]),
        tag: "SELECT",
        run: |context, _| rows(vec![vec![Value::Int8(context.now_ms)]]),
    },
    Statement {
        name: "mark forgotten",
        sql: "UPDATE sealway.meta SET value = greatest(value, (SELECT max(expires_ms) FROM sealway.nonces WHERE expires_ms <= $1)) \
              WHERE name = 'forgotten_ms' AND EXISTS (SELECT FROM sealway.nonces WHERE expires_ms <= $1) RETURNING value",
        parameters: &[Int8],
        columns: Some(&[Int8]),
        tag: "UPDATE",
        run: mark_forgotten,
    },
    Statement {
        name: "forget nonces",
        sql: "DELETE FROM sealway.nonces WHERE key = ANY (ARRAY( \
              SELECT key FROM sealway.nonces WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2))",
        parameters: &[Int8, Int8],
        columns: None,
        tag: "DELETE",
        run: forget,
    },
    Statement {
        name: "purge sessions",
        sql: "WITH gone AS (DELETE FROM sealway.sessions WHERE id = ANY (ARRAY( \
              SELECT id FROM sealway.sessions WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2)) RETURNING revoked_ms) \
              SELECT count(*), count(*) FILTER (WHERE revoked_ms IS NULL) FROM gone",
        parameters: &[Int8, Int8],
        columns: Some(&[Int8, Int8]),
        tag: "SELECT",
        run: purge,
    },
    Statement {
        name: "counts",
        sql: "SELECT name, value FROM sealway.meta",
        parameters: &[],
        columns: Some(&[Text, Int8]),
        tag: "SELECT",
        run: counts,
    },
    Statement {
        name: "count",
        sql: "SELECT (SELECT count(*) FROM (SELECT FROM sealway.sessions WHERE revoked_ms IS NULL LIMIT $1) AS s), \
              (SELECT count(*) FROM (SELECT FROM sealway.nonces WHERE sealed LIMIT $2) AS n), \
              (SELECT count(*) FROM (SELECT FROM sealway.nonces WHERE NOT sealed LIMIT $2) AS n)",
        parameters: &[Int8, Int8],
        columns: Some(&[Int8, Int8, Int8]),
        tag: "SELECT",
        run: count,
    },
    Statement {
        name: "keep counts",
        sql: "UPDATE sealway.meta AS m SET value = n.value \
              FROM unnest(ARRAY['counts', 'counted_ms', 'sessions', 'nonces_sealed', 'nonces_init'], $1::bigint[]) \
              AS n(name, value) WHERE m.name = n.name",
        parameters: &[Int8s],
        columns: None,
        tag: "UPDATE",
        run: keep_counts,
    },
    Statement {
        name: "rows to rewrap",
        sql: "SELECT id, wire, client_id, subject, created_ms, expires_ms, kek_id, wrapped, tenant, auth, lineage, row_version \
              FROM sealway.sessions WHERE kek_id <> $1 AND revoked_ms IS NULL AND expires_ms > $2 AND id > $3 \
              ORDER BY id LIMIT $4 FOR UPDATE SKIP LOCKED",
        parameters: &[Text, Int8, Text, Int8],
        columns: Some(ROW),
        tag: "SELECT",
        run: to_rewrap,
    },
    Statement {
        name: "rewrap",
        sql: "UPDATE sealway.sessions AS s SET kek_id = n.kek_id, wrapped = n.wrapped, row_version = 3 \
              FROM unnest($1::text[], $2::text[], $3::bytea[]) AS n(id, kek_id, wrapped) WHERE s.id = n.id",
        parameters: &[Texts, Texts, Byteas],
        columns: None,
        tag: "UPDATE",
        run: rewrap,
    },
];

fn number(count: usize) -> Value {
    Value::Int8(i64::try_from(count).unwrap_or(i64::MAX))
}

fn lock(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let holder = *context.locks.entry(int(values, 0)).or_insert(context.process);
    rows(vec![vec![Value::Bool(holder == context.process)]])
}

fn mark_forgotten(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let over = context.tables.nonces.values().map(|row| row.expires_ms).filter(|end_ms| *end_ms <= int(values, 0));
    let Some(last_ms) = over.max() else { return (Vec::new(), 0) };
    let value = context.meta("forgotten_ms").value.max(last_ms);
    context.write_meta("forgotten_ms", value);
    rows(vec![vec![Value::Int8(value)]])
}

fn forget(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let over = context.tables.nonces.iter().filter(|(_, row)| row.expires_ms <= int(values, 0));
    let mut over: Vec<_> = over.map(|(key, row)| (row.expires_ms, key.clone())).collect();
    over.sort_unstable();
    over.truncate(limit(values, 1));
    let count = over.len();
    over.into_iter().for_each(|(_, key)| context.write(Write::Nonce(key, None)));
    (Vec::new(), count)
}

fn purge(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let over = context.tables.sessions.iter().filter(|(_, row)| row.expires_ms <= int(values, 0));
    let mut over: Vec<_> = over.map(|(id, row)| (row.expires_ms, id.clone(), row.revoked_ms.is_none())).collect();
    over.sort_unstable();
    over.truncate(limit(values, 1));
    let live = over.iter().filter(|(.., is_live)| *is_live).count();
    let count = over.len();
    over.into_iter().for_each(|(_, id, _)| context.write(Write::Session(id, None)));
    rows(vec![vec![number(count), number(live)]])
}

fn counts(context: &mut Context<'_>, _: &[Value]) -> Answer {
    let row = |(name, row): (&String, &crate::postgres::tables::MetaRow)| {
        vec![Value::Text(name.clone()), Value::Int8(row.value)]
    };
    rows(context.tables.meta.iter().map(row).collect())
}

fn count(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let (sessions_max, nonces_max) = (limit(values, 0), limit(values, 1));
    let sessions = context.tables.sessions.values().filter(|row| row.revoked_ms.is_none()).count();
    let sealed = context.tables.nonces.values().filter(|row| row.sealed).count();
    let inits = context.tables.nonces.len() - sealed;
    let counted = [sessions.min(sessions_max), sealed.min(nonces_max), inits.min(nonces_max)];
    rows(vec![counted.map(number).into()])
}

fn keep_counts(context: &mut Context<'_>, values: &[Value]) -> Answer {
    for (at, name) in COUNTS.iter().enumerate() {
        context.write_meta(name, int(list(values, 0), at));
    }
    (Vec::new(), COUNTS.len())
}

fn to_rewrap(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let (active, now_ms, after) = (string(values, 0), int(values, 1), string(values, 2));
    let is_meant = |(id, row): &(&String, &SessionRow)| {
        row.kek_id != active && row.revoked_ms.is_none() && row.expires_ms > now_ms && id.as_str() > after
    };
    let found = context.tables.sessions.iter().filter(is_meant).take(limit(values, 3));
    rows(found.map(|(id, row)| session_row(id, row)).collect())
}

fn rewrap(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let mut count = 0;
    for row in unnest(values, 3) {
        let id = string(&row, 0);
        let Some(known) = context.tables.sessions.get(id) else { continue };
        let (kek_id, wrapped) = (string(&row, 1).to_owned(), bytes(&row, 2).to_vec());
        let changed = SessionRow { kek_id, wrapped, row_version: Some(3), ..known.clone() };
        context.write(Write::Session(id.to_owned(), Some(Box::new(changed))));
        count += 1;
    }
    (Vec::new(), count)
}
