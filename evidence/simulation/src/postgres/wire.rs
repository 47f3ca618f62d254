//! PostgreSQL's protocol, version 3, as a server speaks it: messages of clients, answers, and values in the binary format.

/// The type of a column or a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int2,
    Int4,
    Int8,
    Text,
    Bytea,
    Bools,
    Int2s,
    Int8s,
    Texts,
    Byteas,
}

/// A value of a column or a parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
}

impl Kind {
    pub(super) fn oid(self) -> u32 {
        match self {
            Kind::Bool => 16,
            Kind::Bytea => 17,
            Kind::Int8 => 20,
            Kind::Int2 => 21,
            Kind::Int4 => 23,
            Kind::Text => 25,
            Kind::Bools => 1000,
            Kind::Byteas => 1001,
            Kind::Int2s => 1005,
            Kind::Texts => 1009,
            Kind::Int8s => 1016,
        }
    }

    /// Returns the type of an array's elements.
    fn element(self) -> Option<Kind> {
        match self {
            Kind::Bools => Some(Kind::Bool),
            Kind::Byteas => Some(Kind::Bytea),
            Kind::Int2s => Some(Kind::Int2),
            Kind::Texts => Some(Kind::Text),
            Kind::Int8s => Some(Kind::Int8),
            _ => None,
        }
    }

    /// Reads a value in the binary format; panics at bytes that are none.
    fn read(self, bytes: &[u8]) -> Value {
        if let Some(element) = self.element() {
            let mut input = Input(bytes);
            let (dimensions, _, oid) = (input.int4(), input.int4(), input.int4());
            assert_eq!(oid.cast_unsigned(), element.oid(), "an array holds other elements");
            let count = if dimensions == 0 { 0 } else { input.int4() };
            if dimensions > 0 {
                input.int4();
            }
            return Value::List((0..count).map(|_| input.value(element)).collect());
        }
        let mut input = Input(bytes);
        match self {
            Kind::Bool => Value::Bool(bytes == [1]),
            Kind::Int2 => Value::Int2(input.int2()),
            Kind::Int4 => Value::Int4(input.int4()),
            Kind::Int8 => Value::Int8(i64::from_be_bytes(input.take())),
            Kind::Text => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
            _ => Value::Bytes(bytes.to_vec()),
        }
    }
}

impl Value {
    fn encode(&self, out: &mut Vec<u8>) {
        let bytes = match self {
            Value::Null => return out.extend_from_slice(&(-1_i32).to_be_bytes()),
            Value::Bool(value) => vec![u8::from(*value)],
            Value::Int2(value) => value.to_be_bytes().to_vec(),
            Value::Int4(value) => value.to_be_bytes().to_vec(),
            Value::Int8(value) => value.to_be_bytes().to_vec(),
            Value::Text(text) => text.as_bytes().to_vec(),
            Value::Bytes(bytes) => bytes.clone(),
            Value::List(_) => panic!("the model of PostgreSQL returns no arrays"),
        };
        out.extend_from_slice(&len_of(bytes.len()));
        out.extend_from_slice(&bytes);
    }
}

fn len_of(len: usize) -> [u8; 4] {
    u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes()
}

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Parse { name: String, sql: String, kinds: Vec<u32> },
    Bind { statement: String, values: Vec<Option<Vec<u8>>> },
    Describe { name: String },
    Execute,
    Sync,
    Close { name: String },
    Query { sql: String },
    Terminate,
}

/// Bytes that are read from their front; panics at the end, since the product's client sends whole messages.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((head, rest)) = self.0.split_first_chunk() else { panic!("a message of a client is too short") };
        self.0 = rest;
        *head
    }

    fn byte(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    fn int2(&mut self) -> i16 {
        i16::from_be_bytes(self.take())
    }

    fn int4(&mut self) -> i32 {
        i32::from_be_bytes(self.take())
    }

    fn text(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        let text = String::from_utf8_lossy(self.0.get(..end).unwrap_or_default()).into_owned();
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        text
    }

    /// Takes bytes behind their length; `None` is NULL.
    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = usize::try_from(self.int4()).ok()?;
        let Some((bytes, rest)) = self.0.split_at_checked(len) else { panic!("a value of a client is too short") };
        self.0 = rest;
        Some(bytes.to_vec())
    }

    fn value(&mut self, kind: Kind) -> Value {
        self.bytes().map_or(Value::Null, |bytes| kind.read(&bytes))
    }
}

/// Reads a parameter in the binary format.
pub(super) fn parameter(kind: Kind, bytes: Option<&Vec<u8>>) -> Value {
    bytes.map_or(Value::Null, |bytes| kind.read(bytes))
}

/// Takes a startup message off the front of the input: its settings; `None` if it is not complete.
pub(super) fn take_startup(input: &mut Vec<u8>) -> Option<Vec<(String, String)>> {
    let len = usize::try_from(i32::from_be_bytes(*input.first_chunk()?)).unwrap_or(0);
    let body = input.get(4..len)?.to_vec();
    input.drain(..len);
    let mut body = Input(&body);
    assert_eq!(body.int4(), 0x0003_0000, "a client speaks another version of the protocol, or TLS");
    let mut settings = Vec::new();
    loop {
        let name = body.text();
        if name.is_empty() {
            return Some(settings);
        }
        settings.push((name, body.text()));
    }
}

/// Takes a message off the front of the input; `None` if it is not complete.
pub(super) fn take(input: &mut Vec<u8>) -> Option<Message> {
    let len = usize::try_from(i32::from_be_bytes(*input.get(1..5)?.first_chunk()?)).unwrap_or(0);
    let body = input.get(5..=len)?.to_vec();
    let mark = input.first().copied()?;
    input.drain(..=len);
    let mut body = Input(&body);
    Some(match mark {
        b'P' => {
            let (name, sql, count) = (body.text(), body.text(), body.int2());
            Message::Parse { name, sql, kinds: (0..count).map(|_| body.int4().cast_unsigned()).collect() }
        }
        b'B' => {
            let (_portal, statement, formats) = (body.text(), body.text(), body.int2());
            (0..formats).for_each(|_| assert_eq!(body.int2(), 1, "a parameter is text"));
            let count = body.int2();
            Message::Bind { statement, values: (0..count).map(|_| body.bytes()).collect() }
        }
        b'D' => {
            assert_eq!(body.byte(), b'S', "a client describes a portal");
            Message::Describe { name: body.text() }
        }
        b'E' => Message::Execute,
        b'S' => Message::Sync,
        b'C' => {
            assert_eq!(body.byte(), b'S', "a client closes a portal");
            Message::Close { name: body.text() }
        }
        b'Q' => Message::Query { sql: body.text() },
        b'X' => Message::Terminate,
        other => panic!("the model of PostgreSQL lacks the message {:?}", char::from(other)),
    })
}

/// Answers to a client, in the order in which it gets them.
#[derive(Default)]
pub(super) struct Answers(pub(super) Vec<u8>);

impl Answers {
    fn message(&mut self, mark: u8, body: &[u8]) {
        self.0.push(mark);
        self.0.extend_from_slice(&len_of(body.len() + 4));
        self.0.extend_from_slice(body);
    }

    /// Begins a session with a process of the server.
    pub(super) fn begin(&mut self, process: i32) {
        self.message(b'R', &[0; 4]);
        for (name, value) in [("server_version", "17.0"), ("client_encoding", "UTF8")] {
            self.message(b'S', format!("{name}\0{value}\0").as_bytes());
        }
        self.message(b'K', &[process.to_be_bytes(), [0; 4]].concat());
        self.ready(b'I');
    }

    pub(super) fn ready(&mut self, state: u8) {
        self.message(b'Z', &[state]);
    }

    pub(super) fn parsed(&mut self) {
        self.message(b'1', &[]);
    }

    pub(super) fn bound(&mut self) {
        self.message(b'2', &[]);
    }

    pub(super) fn closed(&mut self) {
        self.message(b'3', &[]);
    }

    pub(super) fn described(&mut self, parameters: &[Kind], columns: Option<&[Kind]>) {
        let count = |len: usize| u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
        let mut body = count(parameters.len()).to_vec();
        parameters.iter().for_each(|kind| body.extend_from_slice(&kind.oid().to_be_bytes()));
        self.message(b't', &body);
        let Some(columns) = columns else { return self.message(b'n', &[]) };
        let mut body = count(columns.len()).to_vec();
        for kind in columns {
            // The name, a table and its column, the type with its length and modifier, and the format.
            body.extend_from_slice(b"?\0\0\0\0\0\0\0");
            body.extend_from_slice(&kind.oid().to_be_bytes());
            body.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 1]);
        }
        self.message(b'T', &body);
    }

    pub(super) fn row(&mut self, row: &[Value]) {
        let mut body = u16::try_from(row.len()).unwrap_or(u16::MAX).to_be_bytes().to_vec();
        row.iter().for_each(|value| value.encode(&mut body));
        self.message(b'D', &body);
    }

    pub(super) fn complete(&mut self, tag: &str) {
        self.message(b'C', format!("{tag}\0").as_bytes());
    }

    pub(super) fn failed(&mut self, severity: &str, code: &str, text: &str) {
        self.message(b'E', format!("S{severity}\0V{severity}\0C{code}\0M{text}\0\0").as_bytes());
    }

    /// Notifies of a message on a channel.
    pub(super) fn notify(&mut self, channel: &str, payload: &str) {
        self.message(b'A', &[&[0; 4], channel.as_bytes(), &[0], payload.as_bytes(), &[0]].concat());
    }
}
