//! Statements of the connection that watches the server and of the checks at a start.

use super::{Answer, Context, Statement, bytes, rows, string};
use crate::postgres::tables::Write;
use crate::postgres::wire::Kind::{Bool, Bytea, Int4, Text};
use crate::postgres::wire::Value;

pub(super) const WATCH: &[Statement] = &[
    Statement {
        name: "ping",
        sql: "SELECT pg_backend_pid() FROM sealway.meta LIMIT 1",
        parameters: &[],
        columns: Some(&[Int4]),
        tag: "SELECT",
        run: |context, _| rows(vec![vec![Value::Int4(context.process)]]),
    },
    Statement {
        name: "settings",
        sql: "SELECT pg_backend_pid(), current_setting('search_path'), current_setting('synchronous_commit'), \
              current_setting('synchronous_standby_names'), current_user::text",
        parameters: &[],
        columns: Some(&[Int4, Text, Text, Text, Text]),
        tag: "SELECT",
        run: settings,
    },
    Statement {
        name: "encoding",
        sql: "SELECT current_setting('server_encoding')",
        parameters: &[],
        columns: Some(&[Text]),
        tag: "SELECT",
        run: |_, _| rows(vec![vec![Value::Text("UTF8".into())]]),
    },
    Statement {
        name: "schema",
        sql: "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'sealway'), \
              EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'sealway'), \
              (SELECT count(*) = 3 FROM pg_attribute WHERE attrelid = to_regclass('sealway.migrations') \
              AND attname IN ('number', 'name', 'sha256'))",
        parameters: &[],
        columns: Some(&[Bool, Bool, Bool]),
        tag: "SELECT",
        run: |_, _| rows(vec![vec![Value::Bool(true), Value::Bool(true), Value::Bool(true)]]),
    },
    Statement {
        name: "migrations",
        sql: "SELECT number, name, sha256 FROM sealway.migrations ORDER BY number",
        parameters: &[],
        columns: Some(&[Int4, Text, Bytea]),
        tag: "SELECT",
        run: migrations,
    },
    Statement {
        name: "insert mark of key",
        sql: "INSERT INTO sealway.keks (kek_id, wrapped) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        parameters: &[Text, Bytea],
        columns: None,
        tag: "INSERT 0",
        run: insert_kek,
    },
    Statement {
        name: "marks of keys",
        sql: "SELECT kek_id, wrapped FROM sealway.keks",
        parameters: &[],
        columns: Some(&[Text, Bytea]),
        tag: "SELECT",
        run: keks,
    },
];

fn settings(context: &mut Context<'_>, _: &[Value]) -> Answer {
    let setting = |name: &str| {
        let found = context.settings.iter().rev().find(|(known, _)| known == name);
        Value::Text(found.map(|(_, value)| value.clone()).unwrap_or_default())
    };
    let names = ["search_path", "synchronous_commit", "synchronous_standby_names", "user"];
    rows(vec![[Value::Int4(context.process)].into_iter().chain(names.map(setting)).collect()])
}

fn migrations(context: &mut Context<'_>, _: &[Value]) -> Answer {
    let row = |(number, name, hash): &(i32, String, Vec<u8>)| {
        vec![Value::Int4(*number), Value::Text(name.clone()), Value::Bytes(hash.clone())]
    };
    rows(context.tables.migrations.iter().map(row).collect())
}

fn insert_kek(context: &mut Context<'_>, values: &[Value]) -> Answer {
    let id = string(values, 0);
    if context.tables.keks.contains_key(id) {
        return (Vec::new(), 0);
    }
    context.write(Write::Kek(id.to_owned(), Some(bytes(values, 1).to_vec())));
    (Vec::new(), 1)
}

fn keks(context: &mut Context<'_>, _: &[Value]) -> Answer {
    let row = |(id, wrapped): (&String, &Vec<u8>)| vec![Value::Text(id.clone()), Value::Bytes(wrapped.clone())];
    rows(context.tables.keks.iter().map(row).collect())
}
