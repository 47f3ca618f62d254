//! RESP2, as clients of Redis speak it.

/// An answer of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Simple(&'static str),
    Error(String),
    Int(i64),
    Bulk(Option<Vec<u8>>),
    Array(Vec<Reply>),
}

impl Reply {
    pub(super) fn text(text: impl Into<Vec<u8>>) -> Self {
        Reply::Bulk(Some(text.into()))
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Simple(text) => out.extend_from_slice(format!("+{text}\r\n").as_bytes()),
            Reply::Error(text) => out.extend_from_slice(format!("-{text}\r\n").as_bytes()),
            Reply::Int(value) => out.extend_from_slice(format!(":{value}\r\n").as_bytes()),
            Reply::Bulk(None) => out.extend_from_slice(b"$-1\r\n"),
            Reply::Bulk(Some(bytes)) => {
                out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Reply::Array(items) => {
                out.extend_from_slice(format!("*{}\r\n", items.len()).as_bytes());
                items.iter().for_each(|item| item.encode(out));
            }
        }
    }
}

/// Takes one command off the front of the input; `None` if it is not complete.
pub(super) fn take(input: &mut Vec<u8>) -> Option<Vec<Vec<u8>>> {
    let mut at = 0;
    let count = number(input, &mut at, b'*')?;
    let mut arguments = Vec::new();
    for _ in 0..count {
        let len = number(input, &mut at, b'$')?;
        arguments.push(input.get(at..at + len)?.to_vec());
        at += len + 2;
    }
    if at > input.len() {
        return None;
    }
    input.drain(..at);
    Some(arguments)
}

fn number(input: &[u8], at: &mut usize, mark: u8) -> Option<usize> {
    let rest = input.get(*at..)?;
    assert!(rest.first().is_none_or(|first| *first == mark), "a client sent what is no command");
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    *at += end + 2;
    std::str::from_utf8(rest.get(1..end)?).ok()?.parse().ok()
}
