//! Scripts, run by Lua 5.1 as Redis runs them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::db::Context;
use super::resp::Reply;
use crate::world::Defect;

/// The interpreter, with the functions of texts that it has met.
pub(super) struct Interpreter {
    lua: Lua,
    known: BTreeMap<String, Function>,
}

impl Interpreter {
    pub(super) fn new() -> Self {
        Interpreter { lua: Lua::new(), known: BTreeMap::new() }
    }

    /// Runs a script to its end; nothing else runs meanwhile.
    pub(super) fn run(
        &mut self,
        text: &str,
        keys: &[Vec<u8>],
        arguments: &[Vec<u8>],
        context: &mut Context<'_>,
    ) -> Reply {
        match self.try_run(text, keys, arguments, context) {
            Ok(reply) => reply,
            Err(err) => {
                let text = err.to_string();
                let line = text.lines().next().unwrap_or_default();
                // An error of a command within passes on as it is.
                let inner = line.strip_prefix("runtime error: ").unwrap_or(line);
                Reply::Error(if inner.starts_with("READONLY") { inner.into() } else { format!("ERR {line}") })
            }
        }
    }

    fn try_run(
        &mut self,
        text: &str,
        keys: &[Vec<u8>],
        arguments: &[Vec<u8>],
        context: &mut Context<'_>,
    ) -> mlua::Result<Reply> {
        if !self.known.contains_key(text) {
            let function = self.lua.load(planted(context.defect, text)).into_function()?;
            self.known.insert(text.to_owned(), function);
        }
        let (lua, globals) = (&self.lua, self.lua.globals());
        let strings = |texts: &[Vec<u8>]| {
            let texts = texts.iter().map(|text| lua.create_string(text)).collect::<mlua::Result<Vec<_>>>()?;
            lua.create_sequence_from(texts)
        };
        globals.set("KEYS", strings(keys)?)?;
        globals.set("ARGV", strings(arguments)?)?;
        let context = RefCell::new(context);
        let Some(function) = self.known.get(text) else { return Ok(Reply::Bulk(None)) };
        lua.scope(|scope| {
            let call = |is_protected: bool| {
                let context = &context;
                scope.create_function(move |lua, arguments: MultiValue| {
                    let arguments = arguments.iter().map(bytes).collect::<mlua::Result<Vec<_>>>()?;
                    let reply = context.borrow_mut().run(&arguments);
                    match reply {
                        Reply::Error(text) if !is_protected => Err(mlua::Error::runtime(text)),
                        reply => to_lua(lua, &reply),
                    }
                })
            };
            let redis = lua.create_table()?;
            redis.set("call", call(false)?)?;
            redis.set("pcall", call(true)?)?;
            globals.set("redis", redis)?;
            from_lua(&function.call::<Value>(())?)
        })
    }
}

/// Returns a script with its planted defect. A run whose script has lost the line stays without one, and the defect is not found.
fn planted(defect: Option<Defect>, text: &str) -> String {
    let changes: &[(&str, &str)] = match defect {
        Some(Defect::NoncesForgotten) => &[("ARGV[1], 'NX', 'PX'", "ARGV[1], 'PX'")],
        Some(Defect::NoFloor) => &[
            ("local floor = math.max(now + ahead,", "local floor = 0 --"),
            ("if hw > 0 then floor =", "if hw > 0 then local _ ="),
        ],
        Some(Defect::NoClock) => &[
            ("if now < hw - 5000 then", "if false then"),
            ("if redis.call('EXISTS', KEYS[2]) == 0 and", "if false and"),
            ("if gone <= hw then", "if false then"),
        ],
        Some(Defect::Relay(defect)) => defect.changes(),
        Some(Defect::ShortMemory) => &[("local keep = ", "local keep = 1000 --")],
        _ => &[],
    };
    changes.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn bytes(value: &Value) -> mlua::Result<Vec<u8>> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        Value::Number(number) => Ok(format!("{number}").into_bytes()),
        other => Err(mlua::Error::runtime(format!("a command's argument is a {}", other.type_name()))),
    }
}

fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let tagged = |tag: &str, text: &str| {
        let table = lua.create_table()?;
        table.set(tag, text)?;
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Simple(text) => tagged("ok", text),
        Reply::Error(text) => tagged("err", text),
        Reply::Int(value) => Ok(Value::Number(*value as f64)),
        Reply::Bulk(None) => Ok(Value::Boolean(false)),
        Reply::Bulk(Some(text)) => Ok(Value::String(lua.create_string(text)?)),
        Reply::Array(items) => {
            let items = items.iter().map(|item| to_lua(lua, item)).collect::<mlua::Result<Vec<_>>>()?;
            Ok(Value::Table(lua.create_sequence_from(items)?))
        }
    }
}

fn from_lua(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Nil | Value::Boolean(false) => Reply::Bulk(None),
        Value::Boolean(true) => Reply::Int(1),
        Value::Integer(number) => Reply::Int(*number),
        // Redis cuts the fraction off.
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => Reply::Bulk(Some(text.as_bytes().to_vec())),
        Value::Table(table) => from_table(table)?,
        other => return Err(mlua::Error::runtime(format!("an answer is a {}", other.type_name()))),
    })
}

fn from_table(table: &Table) -> mlua::Result<Reply> {
    let items = table.sequence_values::<Value>().map(|item| from_lua(&item?)).collect::<mlua::Result<Vec<_>>>()?;
    Ok(Reply::Array(items))
}
