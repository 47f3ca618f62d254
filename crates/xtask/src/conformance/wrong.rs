//! Wrong messages: each is rejected, with one code, by every driver.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::agreed::{Family, NOW_MS, SessionPair, finish};
use super::calls::hex;
use super::driver::{Driver, Reply};
use super::message::{Change, Message};
use super::{Codes, Tally};

const TARGET: &str = "/transaction/purchase";
const BODY: &[u8] = b"{}";
const WINDOW_MS: u64 = 300_000;

/// Checks that a case is rejected with the same code as by the first pair, Rust with itself.
fn as_ever(codes: &mut Codes, case: &str, said: Reply) -> anyhow::Result<()> {
    match said {
        Ok(_) => anyhow::bail!("accepted"),
        Err(code) => {
            let known = codes.entry(case.to_owned()).or_insert_with(|| code.clone());
            ensure!(*known == code, "refused as {code}, and as {known} by the reference");
            Ok(())
        }
    }
}

/// Checks that both reject, with one code.
fn as_reference(said: Reply, reference: Reply) -> anyhow::Result<()> {
    match (said, reference) {
        (Err(code), Err(known)) => {
            ensure!(code == known, "refused as {code}, and as {known} by the reference");
            Ok(())
        }
        (Ok(_), Err(known)) => anyhow::bail!("accepted; the reference refuses it as {known}"),
        (_, Ok(_)) => anyhow::bail!("the reference accepts it"),
    }
}

/// Plays wrong init requests and answers.
pub(super) fn inits(
    client: &mut Driver,
    server: &mut Driver,
    reference: &mut Driver,
    codes: &mut Codes,
    family: &Family,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let request = client.must("client.init", family.offer())?;
    for (name, changed) in init_requests(family, &request)? {
        let members = family.served(&changed);
        let held = as_reference(server.ask("server.init", members.clone())?, reference.ask("server.init", members)?);
        tally.cell(&format!("{}: init: {name}", family.name), held);
    }
    let answer = server.must("server.init", family.served(&request))?;
    for (name, changed) in init_answers(family, &answer)? {
        // A rejection uses up a handle.
        let request = client.must("client.init", family.offer())?;
        let answer = server.must("server.init", family.served(&request))?;
        let changed = changed(&answer)?;
        let case = format!("wire {}: answer of an init: {name}", family.wire);
        let said = client.ask("client.finish", finish(&request["handle"], &changed))?;
        tally.cell(&format!("{}: {case}", family.name), as_ever(codes, &case, said));
    }
    Ok(())
}

fn json_of(message: &Value) -> anyhow::Result<Value> {
    Ok(serde_json::from_slice(&Message(message.clone()).body()?)?)
}

fn with_json(message: &Value, body: &Value) -> Value {
    let mut changed = message.clone();
    changed["body_hex"] = hex(body.to_string().as_bytes()).into();
    changed
}

fn init_requests(family: &Family, request: &Value) -> anyhow::Result<Vec<(String, Value)>> {
    let body = json_of(request)?;
    let share = if family.wire == 3 { "share" } else { "clientPublicKey" };
    let mut cases = Vec::new();
    let mut change = |name: &str, to: Value| {
        let mut changed = body.clone();
        changed[name] = to;
        cases.push((
            format!("{name} is {}", changed[name].to_string().chars().take(24).collect::<String>()),
            with_json(request, &changed),
        ));
    };
    for wrong in [json!(null), json!(7), json!(""), json!("AAAA"), json!("A"), json!("é")] {
        change(share, wrong);
    }
    let key = body[share].as_str().context("no share")?;
    let wrong = match family.suite.as_deref() {
        // Coefficients of at least q (FIPS 203 section 7.2); any end of such a key is the seed of one.
        Some("MLKEM1024") => format!("////////{}", &key[8..]),
        // Another x: almost never a point of the curve, and never the earlier key.
        _ => format!("{}{}", &key[..key.len() - 8], "AAAAAAA="),
    };
    change(share, json!(wrong));
    if family.wire == 3 {
        for (name, wrong) in [
            ("suite", json!("none")),
            ("suite", json!(1)),
            ("suites", json!([])),
            ("suites", json!(["none"])),
            ("suites", json!(["a b"])),
            ("suites", json!("P256")),
            ("client_id", json!("a|b")),
            ("client_id", json!("")),
            ("ttl_sec", json!(1.5)),
            ("ttl_sec", json!(-1)),
            ("ttl_sec", json!(4_294_967_296_u64)),
            ("proof", json!(1)),
            ("proof", json!("")),
            ("pinned_key_ids", json!("x")),
            ("pinned_key_ids", json!(["x"])),
        ] {
            change(name, wrong);
        }
    }
    let mut broken = request.clone();
    for (name, text) in [("no JSON", "{"), ("a list", "[]"), ("nothing", ""), ("two values", "{}{}")] {
        broken["body_hex"] = hex(text.as_bytes()).into();
        cases.push((name.to_owned(), broken.clone()));
    }
    if family.wire < 3 {
        let message = Message(request.clone());
        for name in message.names() {
            if name.to_ascii_lowercase().starts_with("x-") {
                cases.push((format!("no {name}"), message.without(&name).0));
                cases.push((format!("{name} twice"), message.twice(&name)?.0));
            }
        }
    }
    Ok(cases)
}

type Alter = Box<dyn Fn(&Value) -> anyhow::Result<Value>>;

fn init_answers(family: &Family, answer: &Value) -> anyhow::Result<Vec<(String, Alter)>> {
    let mut cases: Vec<(String, Alter)> = Vec::new();
    let mut put = |name: String, member: String, to: Value| {
        let alter = move |answer: &Value| {
            let mut body = json_of(answer)?;
            body[member.as_str()] = to.clone();
            Ok(with_json(answer, &body))
        };
        cases.push((name, Box::new(alter)));
    };
    for member in json_of(answer)?.as_object().context("no object")?.keys() {
        // A client may ignore an answer that does not concern the session.
        if family.wire == 3 || ["sessionId", "serverPublicKey"].contains(&member.as_str()) {
            put(format!("no {member}"), member.clone(), json!(null));
            put(format!("{member} is a list of lists"), member.clone(), json!([[]]));
        }
    }
    if family.wire == 3 {
        put("longer".into(), "expires_in_sec".into(), json!(601));
        put("later".into(), "server_time_ms".into(), json!(NOW_MS + 1));
        put("another subject".into(), "subject".into(), json!("mallory"));
        put("another tenant".into(), "tenant".into(), json!("mallory"));
        put("another way to be recognised".into(), "auth".into(), json!("bearer"));
        put("a confirmation of zeros".into(), "confirm".into(), json!(format!("{}=", "A".repeat(43))));
        put("a signature of zeros".into(), "signature".into(), json!(format!("{}==", "A".repeat(86))));
        put("another key".into(), "key_id".into(), json!("0".repeat(32)));
        put("another session".into(), "session_id".into(), json!(format!("S-{}", "0".repeat(32))));
        put("more suites".into(), "suites".into(), json!([family.suite, "other"]));
    }
    // Wires 1 and 2 leave an error's status to the transport.
    if family.wire == 3 {
        cases.push((
            "another status".into(),
            Box::new(|answer| {
                let mut changed = answer.clone();
                changed["status"] = 500.into();
                Ok(changed)
            }),
        ));
    }
    Ok(cases)
}

/// Seals a valid request by the client of the session.
fn sealed(client: &mut Driver, session: &SessionPair, method: &str, body: &[u8]) -> anyhow::Result<(Value, Message)> {
    let asked = json!({
        "session": session.client, "method": method, "target": TARGET, "headers": [], "body_hex": hex(body),
        "now_ms": NOW_MS,
    });
    let made = client.must("client.seal", asked)?;
    let message = Message::request(&made, method, TARGET, NOW_MS);
    Ok((made["call"].clone(), message))
}

/// Plays wrong requests of the first session.
pub(super) fn requests(
    client: &mut Driver,
    server: &mut Driver,
    reference: &mut Driver,
    family: &Family,
    [session, other]: [&SessionPair; 2],
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let mut record = session.record.clone();
    record["key"] = other.record["key"].clone();
    let over = session.record["expires_ms"].as_u64().context("no expires_ms")?;
    let mut cases: Vec<(String, Message, &Value)> = Vec::new();
    let methods: &[(&str, &[u8])] = if family.wire == 3 { &[("POST", BODY), ("GET", b"")] } else { &[("POST", BODY)] };
    for (method, body) in methods {
        let (_, good) = sealed(client, session, method, body)?;
        let mut case =
            |name: String, message: Message, record| cases.push((format!("{method}: {name}"), message, record));
        for change in [Change::FirstByte, Change::LastByte, Change::Shorter, Change::Longer, Change::Nothing] {
            // An empty header counts as absent, and an empty body of wire 1 as an empty message whose tag is wrong.
            case(format!("{change:?}"), good.bytes_changed(change)?, &session.record);
        }
        for name in good.names().into_iter().filter(|name| name.to_ascii_lowercase().starts_with("x-")) {
            // A request without X-Seal is not one of wire 3.
            if !name.eq_ignore_ascii_case("X-Seal") {
                case(format!("no {name}"), good.without(&name), &session.record);
            }
            case(format!("{name} twice"), good.twice(&name)?, &session.record);
            case(format!("{name} empty"), good.replaced(&name, ""), &session.record);
            case(format!("{name} beyond ASCII"), good.replaced(&name, "é"), &session.record);
        }
        case("too early".into(), good.with("now_ms", NOW_MS - WINDOW_MS - 1), &session.record);
        case("over".into(), good.with("now_ms", over), &session.record);
        case("of another session's key".into(), good.clone(), &record);
        if family.wire != 2 {
            case("another target".into(), good.with("target", "/transaction/refund"), &session.record);
        }
        if family.wire == 3 {
            case("another method".into(), good.with("method", "PUT"), &session.record);
            case("a query".into(), good.with("target", format!("{TARGET}?x")), &session.record);
        }
        let (_, sent) = sealed(client, session, method, body)?;
        let stamp = if family.wire == 1 { "X-Nonce" } else { "X-Idempotency-Key" };
        let swapped = good.replaced(stamp, &sent.header(stamp).context("no nonce")?);
        case("another request's nonce".into(), swapped, &session.record);
        let nonce = good.header(stamp).context("no nonce")?;
        let reserved = match nonce.split_once('.') {
            Some((time, nonce)) => format!("{time}.R-{nonce}"),
            None => format!("R-{nonce}"),
        };
        case("an answer's nonce".into(), good.replaced(stamp, &reserved), &session.record);
        let kid = good.header("X-Kid").context("no kid")?;
        case(
            "a kid without its prefix".into(),
            good.replaced("X-Kid", kid.trim_start_matches("session:")),
            &session.record,
        );
    }
    let (_, good) = sealed(client, session, "POST", BODY)?;
    let opened = server.must("server.open", good.to("session", &session.record))?;
    let answer = json!({"call": opened["call"], "status": 200, "headers": [], "body_hex": hex(BODY), "now_ms": NOW_MS});
    let answer = server.must("server.seal", answer)?;
    cases.push(("an answer sent back".into(), Message::request(&answer, "POST", TARGET, NOW_MS), &session.record));

    for (name, message, record) in cases {
        let members = message.to("session", record);
        let held = as_reference(server.ask("server.open", members.clone())?, reference.ask("server.open", members)?);
        tally.cell(&format!("{}: request: {name}", family.name), held);
    }
    Ok(())
}

/// A request and its valid answer, with the handle of the client's call.
pub(super) struct Exchange {
    pub(super) call: Value,
    pub(super) request: Message,
    pub(super) answer: Message,
}

/// Derives a wrong answer from a valid one and its request.
type AlterAnswer = Box<dyn Fn(&Message, &Message) -> anyhow::Result<Message>>;

/// Plays wrong answers of a session to a client.
pub(super) fn answers_of_session(
    client: &mut Driver,
    server: &mut Driver,
    codes: &mut Codes,
    family: &Family,
    session: &SessionPair,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let mut exchange = |client: &mut Driver, is_long: bool| -> anyhow::Result<Exchange> {
        let (call, request) = sealed(client, session, "POST", BODY)?;
        let opened = server.must("server.open", request.to("session", &session.record))?;
        let body = if is_long { hex(&[b'x'; 65_537]) } else { hex(BODY) };
        let asked = json!({"call": opened["call"], "status": 200, "headers": [], "body_hex": body, "now_ms": NOW_MS});
        let answer = server.must("server.seal", asked)?;
        let answer = Message(json!({
            "status": 200, "headers": answer["headers"], "body_hex": answer["body_hex"], "now_ms": NOW_MS,
        }));
        Ok(Exchange { call, request, answer })
    };
    answers(client, &mut exchange, codes, (&family.name, family.wire), tally)?;
    if family.wire == 3 {
        // As if the client had not sent its pins: a server would refuse to agree.
        let request = client.must("client.init", family.offer())?;
        let mut body = json_of(&request)?;
        body["pinned_key_ids"] = Value::Null;
        let mut served = family.served(&with_json(&request, &body));
        served["identity_hex"] = json!("11".repeat(32));
        let answer = server.must("server.init", served)?;
        let said = client.ask("client.finish", finish(&request["handle"], &answer))?;
        let case = "wire 3: an identity that is not trusted".to_owned();
        tally.cell(&format!("{}: {case}", family.name), as_ever(codes, &case, said));
    }
    Ok(())
}

/// Plays wrong answers to a client. `exchange` makes a valid one, of several frames if it is asked for a long one.
pub(super) fn answers(
    client: &mut Driver,
    exchange: &mut dyn FnMut(&mut Driver, bool) -> anyhow::Result<Exchange>,
    codes: &mut Codes,
    (family, wire): (&str, u64),
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let sample = exchange(client, false)?.answer;
    let mut alters: Vec<(String, AlterAnswer)> = Vec::new();
    for change in [Change::FirstByte, Change::LastByte, Change::Shorter, Change::Longer, Change::Nothing] {
        alters.push((format!("{change:?}"), Box::new(move |answer, _| answer.bytes_changed(change))));
    }
    for name in sample.names().into_iter().filter(|name| name.to_ascii_lowercase().starts_with("x-")) {
        let (twice, lower) = (name.clone(), name.to_ascii_lowercase());
        alters.push((format!("no {lower}"), Box::new(move |answer, _| Ok(answer.without(&name)))));
        alters.push((format!("{lower} twice"), Box::new(move |answer, _| answer.twice(&twice))));
    }
    let kid = if wire == 4 { format!("hpke:{}", "0".repeat(32)) } else { format!("session:S-{}", "0".repeat(32)) };
    alters.push(("another kid".into(), Box::new(move |answer, _| Ok(answer.replaced("X-Kid", &kid)))));
    let sent_back = |answer: &Message, request: &Message| {
        let mut sent = answer.with("headers", request.0["headers"].clone());
        sent.0["body_hex"] = request.0["body_hex"].clone();
        Ok(sent)
    };
    alters.push(("the request".into(), Box::new(sent_back)));
    if wire >= 3 {
        alters.push(("another status".into(), Box::new(|answer, _| Ok(answer.with("status", 201)))));
        let earlier = sample.clone();
        alters.push(("the answer of another request".into(), Box::new(move |_, _| Ok(earlier.clone()))));
        for change in [Change::Swapped, Change::Cut] {
            alters.push((format!("{change:?}"), Box::new(move |answer, _| answer.bytes_changed(change))));
        }
    } else {
        let late = NOW_MS + WINDOW_MS + 1;
        alters.push(("too late".into(), Box::new(move |answer, _| Ok(answer.with("now_ms", late)))));
    }
    if wire == 4 {
        // The service's answer as if the gateway had sealed it as a problem.
        alters.push((
            "a problem's nonce".into(),
            Box::new(|answer, _| {
                let key = answer.header("X-Idempotency-Key").context("no nonce")?;
                Ok(answer.replaced("X-Idempotency-Key", &key.replace(".r-", ".p-")))
            }),
        ));
    }
    for (name, alter) in alters {
        let is_long = ["Swapped", "Cut"].contains(&name.as_str());
        let Exchange { call, request, answer } = exchange(client, is_long)?;
        let changed = alter(&answer, &request)?;
        let case = format!("wire {wire}: answer: {name}");
        let said = client.ask("client.open", changed.to("call", &call))?;
        tally.cell(&format!("{family}: {case}"), as_ever(codes, &case, said));
    }
    Ok(())
}
