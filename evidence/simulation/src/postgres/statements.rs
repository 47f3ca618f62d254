//! The statements that the product sends, each by its whole text, and what they do to the tables. Any other text is an error of the model,
//! so that a statement that changes in the product is noticed. `tests/postgres.rs` runs them against a real server.

use super::tables::{MetaRow, NonceRow, SessionRow, Tables, Write};
use super::wire::{Kind, Value};
use crate::world::Defect;

mod sweep;
mod watch;

use Kind::{Bool, Bools, Bytea, Byteas, Int2, Int2s, Int8, Int8s, Text, Texts};

/// State and environment of one statement.
pub(super) struct Context<'a> {
    pub(super) tables: &'a mut Tables,
    /// Advisory locks, each with the process that holds it.
    pub(super) locks: &'a mut std::collections::BTreeMap<i64, i32>,
    /// The server's clock, in Unix milliseconds.
    pub(super) now_ms: i64,
    pub(super) system: i64,
    pub(super) timeline: i64,
    /// The number of this transaction.
    pub(super) xid: u32,
    /// The server's process that runs it.
    pub(super) process: i32,
    /// Settings of the client's session, and of the server.
    pub(super) settings: &'a [(String, String)],
    pub(super) defect: Option<Defect>,
    /// Writes so far, and the writes that take them back.
    pub(super) redo: Vec<Write>,
    pub(super) undo: Vec<Write>,
    /// Notifications, which are sent at the commit.
    pub(super) notes: Vec<String>,
}

/// The rows that a statement returns, and the number of rows that its tag tells.
pub(super) type Answer = (Vec<Vec<Value>>, usize);

/// A statement with a plan.
pub(super) struct Statement {
    pub(super) name: &'static str,
    /// Its text, with single spaces.
    pub(super) sql: &'static str,
    pub(super) parameters: &'static [Kind],
    /// The columns of its rows; `None` if it returns none.
    pub(super) columns: Option<&'static [Kind]>,
    /// The tag of its completion.
    pub(super) tag: &'static str,
    pub(super) run: fn(&mut Context<'_>, &[Value]) -> Answer,
}

macro_rules! timeline {
    () => {
        "('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint"
    };
}

macro_rules! origin {
    ($transaction:literal) => {
        concat!(
            "((SELECT system_identifier FROM pg_control_system()) # (",
            timeline!(),
            " << 32 | ",
            $transaction,
            "))"
        )
    };
}

const ROW: &[Kind] = &[Text, Int2, Text, Text, Int8, Int8, Text, Bytea, Text, Text, Text, Int2];

/// Returns the statement of a text, which may have other white space.
pub(super) fn statement(sql: &str) -> Option<&'static Statement> {
    let sql = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    all().find(|statement| statement.sql == sql)
}

pub(super) fn all() -> impl Iterator<Item = &'static Statement> {
    SESSIONS.iter().chain(NONCES).chain(sweep::SWEEP).chain(watch::WATCH)
}

const SESSIONS: &[Statement] = &[
    Statement {
        name: "insert sessions",
        sql: "INSERT INTO sealway.sessions (id, wire, client_id, subject, created_ms, expires_ms, kek_id, wrapped, tenant, auth, \
              lineage, row_version) SELECT *, 3 FROM unnest($1::text[], $2::smallint[], $3::text[], $4::text[], $5::bigint[], \
              $6::bigint[], $7::text[], $8::bytea[], $9::text[], $10::text[], $11::text[]) ON CONFLICT DO NOTHING",
        parameters: &[Texts, Int2s, Texts, Texts, Int8s, Int8s, Texts, Byteas, Texts, Texts, Texts],
        columns: None,
        tag: "INSERT 0",
        run: insert_sessions,
    },
    Statement {
        name: "find session",
        sql: "SELECT id, wire, client_id, subject, created_ms, expires_ms, kek_id, wrapped, tenant, auth, lineage, row_version \
              FROM sealway.sessions AS s WHERE id = $1 AND revoked_ms IS NULL AND NOT EXISTS \
              (SELECT FROM sealway.sessions AS root WHERE root.id = s.lineage AND root.revoked_ms IS NOT NULL)",
        parameters: &[Text],
        columns: Some(ROW),
        tag: "SELECT",
        run: find,
    },
    Statement {
        name: "revoke session",
        sql: "UPDATE sealway.sessions SET revoked_ms = $2, wrapped = '' WHERE id = $1 AND revoked_ms IS NULL \
              RETURNING expires_ms, pg_notify('sealway_revoked', id)::text",
        parameters: &[Text, Int8],
        columns: Some(&[Int8, Text]),
        tag: "UPDATE",
        run: revoke,
    },
    Statement {
        name: "end chain",
        sql: "WITH before AS (SELECT revoked_ms IS NULL AS is_live FROM sealway.sessions WHERE id = $1), ended AS \
              (INSERT INTO sealway.sessions AS s (id, wire, created_ms, expires_ms, kek_id, wrapped, revoked_ms) \
              VALUES ($1, 3, $2, $3, '', '', $2) ON CONFLICT (id) DO UPDATE SET \
              revoked_ms = coalesce(s.revoked_ms, $2), wrapped = '', expires_ms = greatest(s.expires_ms, $3) \
              RETURNING pg_notify('sealway_revoked', id)::text) \
              SELECT coalesce((SELECT is_live FROM before), false), count(*) FROM ended",
        parameters: &[Text, Int8, Int8],
        columns: Some(&[Bool, Int8]),
        tag: "SELECT",
        run: end_chain,
    },
    Statement {
        name: "end of revoked session",
        sql: "SELECT expires_ms FROM sealway.sessions WHERE id = $1 AND revoked_ms IS NOT NULL",
        parameters: &[Text],
        columns: Some(&[Int8]),
        tag: "SELECT",
        run: revoked_end,
    },
    Statement {
        name: "revoked sessions",
        sql: "SELECT id, expires_ms FROM sealway.sessions WHERE revoked_ms IS NOT NULL AND expires_ms > $1 AND \
              (expires_ms, id) > ($2, $3) ORDER BY expires_ms, id LIMIT $4",
        parameters: &[Int8, Int8, Text, Int8],
        columns: Some(&[Text, Int8]),
        tag: "SELECT",
        run: revoked_after,
    },
];

const NONCES: &[Statement] = &[
    Statement {
        name: "insert nonces",
        sql: concat!(
            "INSERT INTO sealway.nonces (key, sealed, stamp_ms, expires_ms) \
             SELECT * FROM unnest($1::bytea[], $2::boolean[], $3::bigint[], $4::bigint[]) \
             ON CONFLICT DO NOTHING RETURNING key, ",
            timeline!()
        ),
        parameters: &[Byteas, Bools, Int8s, Int8s],
        columns: Some(&[Bytea, Int8]),
        tag: "INSERT 0",
        run: insert_nonces,
    },
    Statement {
        name: "marks",
        sql: concat!(
            "SELECT max(value) FILTER (WHERE name = 'forgotten_ms'), max(value) FILTER (WHERE name = 'lost_ms'), max(",
            timeline!(),
            ") FILTER (WHERE name = 'timeline' AND value = ",
            origin!("xmin::text::bigint"),
            ") FROM sealway.meta"
        ),
        parameters: &[],
        columns: Some(&[Int8, Int8, Int8]),
        tag: "SELECT",
        run: marks,
    },
    Statement {
        name: "find nonce",
        sql: "SELECT FROM sealway.nonces WHERE key = $1",
        parameters: &[Bytea],
        columns: Some(&[]),
        tag: "SELECT",
        run: is_taken,
    },
    Statement {
        name: "mark lost",
        sql: concat!(
            "WITH changed AS (UPDATE sealway.meta AS m SET value = ",
            origin!("(txid_current() & 4294967295)"),
            " FROM sealway.meta AS old WHERE m.name = 'timeline' AND old.name = m.name AND m.value <> ",
            origin!("m.xmin::text::bigint"),
            " RETURNING old.value <> 0 AND (NOT $2 OR (old.value # ",
            origin!("old.xmin::text::bigint"),
            ") & 4294967295 <> 0) AS lacks) UPDATE sealway.meta SET value = greatest(value, \
             (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $1) \
             WHERE name = 'lost_ms' AND EXISTS (SELECT FROM changed WHERE lacks) RETURNING value"
        ),
        parameters: &[Int8, Bool],
        columns: Some(&[Int8]),
        tag: "UPDATE",
        run: mark_lost,
    },
    Statement {
        name: "nonces after",
        sql: "SELECT key, sealed, expires_ms FROM sealway.nonces \
              WHERE stamp_ms > $1 AND expires_ms > $2 AND key > $3 ORDER BY key LIMIT $4",
        parameters: &[Int8, Int8, Bytea, Int8],
        columns: Some(&[Bytea, Bool, Int8]),
        tag: "SELECT",
        run: nonces_after,
    },
];

fn other(values: &[Value], at: usize) -> ! {
    panic!("parameter {at} of a statement has another type: {values:?}")
}

fn int(values: &[Value], at: usize) -> i64 {
    match values.get(at) {
        Some(Value::Int8(value)) => *value,
        _ => other(values, at),
    }
}

/// Returns a limit as a number of rows.
fn limit(values: &[Value], at: usize) -> usize {
    usize::try_from(int(values, at)).unwrap_or(usize::MAX)
}

fn string(values: &[Value], at: usize) -> &str {
    match values.get(at) {
        Some(Value::Text(text)) => text,
        _ => other(values, at),
    }
}

fn bytes(values: &[Value], at: usize) -> &[u8] {
    match values.get(at) {
        Some(Value::Bytes(bytes)) => bytes,
        _ => other(values, at),
    }
}

fn list(values: &[Value], at: usize) -> &[Value] {
    match values.get(at) {
        Some(Value::List(list)) => list,
        _ => other(values, at),
    }
}

/// Turns arrays of equal length into rows, as `unnest` does.
fn unnest(values: &[Value], columns: usize) -> Vec<Vec<Value>> {
    let len = list(values, 0).len();
    let cell = |row: usize, column: usize| list(values, column).get(row).cloned().unwrap_or(Value::Null);
    (0..len).map(|row| (0..columns).map(|column| cell(row, column)).collect()).collect()
}

fn optional(text: Option<&String>) -> Value {
    text.map_or(Value::Null, |text| Value::Text(text.clone()))
}

fn maybe(values: &[Value], at: usize) -> Option<String> {
    match values.get(at) {
        Some(Value::Null) => None,
        _ => Some(string(values, at).to_owned()),
    }
}

fn rows(rows: Vec<Vec<Value>>) -> Answer {
    let count = rows.len();
    (rows, count)
}

impl Context<'_> {
    fn write(&mut self, write: Write) {
        self.redo.push(write.clone());
        let undo = self.tables.apply(write);
        self.undo.push(undo);
    }

    fn write_meta(&mut self, name: &str, value: i64) {
        self.write(Write::Meta(name.to_owned(), Some(MetaRow { value, xmin: self.xid })));
    }

    fn meta(&self, name: &str) -> MetaRow {
        self.tables.meta.get(name).copied().unwrap_or_else(|| panic!("sealway.meta lacks {name}"))
    }

    /// Returns the origin of a row that a transaction wrote.
    fn origin(&self, xid: u32) -> i64 {
        self.system ^ (self.timeline << 32 | i64::from(xid))
    }

    fn notify(&mut self, id: &str) {
        self.notes.push(id.to_owned());
    }
}

fn insert_sessions(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let mut count = 0;
    for row in unnest(values, 11) {
        let id = string(&row, 0).to_owned();
        if context.tables.sessions.contains_key(&id) {
            continue;
        }
        let Some(Value::Int2(wire)) = row.get(1) else { other(&row, 1) };
        let session = SessionRow {
            wire: *wire,
            client_id: maybe(&row, 2),
            subject: maybe(&row, 3),
            created_ms: int(&row, 4),
            expires_ms: int(&row, 5),
            kek_id: string(&row, 6).to_owned(),
            wrapped: bytes(&row, 7).to_vec(),
            revoked_ms: None,
            tenant: maybe(&row, 8),
            auth: maybe(&row, 9),
            lineage: maybe(&row, 10),
            row_version: Some(3),
        };
        context.write(Write::Session(id, Some(Box::new(session))));
        count += 1;
    }
    (Vec::new(), count)
}

/// Returns a row with the columns of [`ROW`].
fn session_row(id: &str, row: &SessionRow) -> Vec<Value> {
    vec![
        Value::Text(id.to_owned()),
        Value::Int2(row.wire),
        optional(row.client_id.as_ref()),
        optional(row.subject.as_ref()),
        Value::Int8(row.created_ms),
        Value::Int8(row.expires_ms),
        Value::Text(row.kek_id.clone()),
        Value::Bytes(row.wrapped.clone()),
        optional(row.tenant.as_ref()),
        optional(row.auth.as_ref()),
        optional(row.lineage.as_ref()),
        row.row_version.map_or(Value::Null, Value::Int2),
    ]
}

fn find(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let (id, sessions) = (string(values, 0), &context.tables.sessions);
    let is_revoked = |id: &String| sessions.get(id).is_some_and(|row| row.revoked_ms.is_some());
    let is_over = |row: &SessionRow| row.revoked_ms.is_some() || row.lineage.as_ref().is_some_and(is_revoked);
    let found = sessions.get(id).filter(|row| !is_over(row));
    rows(found.map(|row| session_row(id, row)).into_iter().collect())
}

fn revoke(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let (id, now_ms) = (string(values, 0), int(values, 1));
    let Some(row) = context.tables.sessions.get(id).filter(|row| row.revoked_ms.is_none()) else {
        return (Vec::new(), 0);
    };
    let row = SessionRow { revoked_ms: Some(now_ms), wrapped: Vec::new(), ..row.clone() };
    let expires_ms = row.expires_ms;
    context.write(Write::Session(id.to_owned(), Some(Box::new(row))));
    context.notify(id);
    rows(vec![vec![Value::Int8(expires_ms), Value::Text(String::new())]])
}

fn end_chain(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let (id, now_ms, until_ms) = (string(values, 0), int(values, 1), int(values, 2));
    let before = context.tables.sessions.get(id).cloned();
    let is_live = before.as_ref().is_some_and(|row| row.revoked_ms.is_none());
    let row = match before {
        Some(row) => SessionRow {
            revoked_ms: row.revoked_ms.or(Some(now_ms)),
            wrapped: Vec::new(),
            expires_ms: row.expires_ms.max(until_ms),
            ..row
        },
        None => SessionRow {
            wire: 3,
            created_ms: now_ms,
            expires_ms: until_ms,
            revoked_ms: Some(now_ms),
            ..SessionRow::default()
        },
    };
    context.write(Write::Session(id.to_owned(), Some(Box::new(row))));
    context.notify(id);
    rows(vec![vec![Value::Bool(is_live), Value::Int8(1)]])
}

fn revoked_end(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let row = context.tables.sessions.get(string(values, 0)).filter(|row| row.revoked_ms.is_some());
    rows(row.map(|row| vec![Value::Int8(row.expires_ms)]).into_iter().collect())
}

fn revoked_after(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let (now_ms, after) = (int(values, 0), (int(values, 1), string(values, 2)));
    let revoked = context.tables.sessions.iter().filter(|(_, row)| row.revoked_ms.is_some() && row.expires_ms > now_ms);
    let mut found: Vec<_> = revoked.map(|(id, row)| (row.expires_ms, id.as_str())).filter(|row| *row > after).collect();
    found.sort_unstable();
    let found = found.into_iter().take(limit(values, 3));
    rows(found.map(|(end_ms, id)| vec![Value::Text(id.to_owned()), Value::Int8(end_ms)]).collect())
}

fn insert_nonces(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let mut inserted = Vec::new();
    for row in unnest(values, 4) {
        let key = bytes(&row, 0).to_vec();
        if context.tables.nonces.contains_key(&key) && context.defect != Some(Defect::RowsTwice) {
            continue;
        }
        let nonce = NonceRow {
            sealed: row.get(1) == Some(&Value::Bool(true)),
            stamp_ms: int(&row, 2),
            expires_ms: int(&row, 3),
        };
        context.write(Write::Nonce(key.clone(), Some(nonce)));
        inserted.push(vec![Value::Bytes(key), Value::Int8(context.timeline)]);
    }
    rows(inserted)
}

fn marks(context: &mut Context<'_>, _: &[Value]) -> Answer {
    let [forgotten, lost, timeline] = ["forgotten_ms", "lost_ms", "timeline"].map(|name| context.meta(name));
    let is_ours = timeline.value == context.origin(timeline.xmin);
    let timeline = if is_ours { Value::Int8(context.timeline) } else { Value::Null };
    rows(vec![vec![Value::Int8(forgotten.value), Value::Int8(lost.value), timeline]])
}

fn is_taken(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let is_taken = context.tables.nonces.contains_key(bytes(values, 0));
    rows(is_taken.then(Vec::new).into_iter().collect())
}

fn mark_lost(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let (ahead_ms, is_lossless) = (int(values, 0), values.get(1) == Some(&Value::Bool(true)));
    let old = context.meta("timeline");
    let written = context.origin(old.xmin);
    if old.value == written {
        return (Vec::new(), 0);
    }
    context.write_meta("timeline", context.origin(context.xid));
    let differs_below = (old.value ^ written) & 0xffff_ffff != 0;
    if old.value == 0 || is_lossless && !differs_below {
        return (Vec::new(), 0);
    }
    let lost_ms = context.meta("lost_ms").value.max(context.now_ms + ahead_ms);
    context.write_meta("lost_ms", lost_ms);
    rows(vec![vec![Value::Int8(lost_ms)]])
}

fn nonces_after(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let (stamp_ms, now_ms, after) = (int(values, 0), int(values, 1), bytes(values, 2));
    let is_meant = |(key, row): &(&Vec<u8>, &NonceRow)| {
        row.stamp_ms > stamp_ms && row.expires_ms > now_ms && key.as_slice() > after
    };
    let found = context.tables.nonces.iter().filter(is_meant).take(limit(values, 3));
    let row = |(key, row): (&Vec<u8>, &NonceRow)| {
        vec![Value::Bytes(key.clone()), Value::Bool(row.sealed), Value::Int8(row.expires_ms)]
    };
    rows(found.map(row).collect())
}
