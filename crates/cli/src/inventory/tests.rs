use super::*;

const ROWS: &str = r#"{"format":"sealway-inventory-1","sources":["b"],"since_ms":1000,"until_ms":90000,"is_open":false,"interval_ms":5000,
"gaps":{"count":0,"after_ms":0},"overflow":{"count":0,"first_ms":0,"last_ms":0},"rows":[
{"operation":"SignData","algorithm":"ml-dsa-87","size":87,"key":"k","party":"uid:7","protocol":"v1","count":3,"first_ms":1,"last_ms":2}ROWS]}"#;

fn document(more: &str) -> Document {
    Document::parse(ROWS.replace("ROWS", more).as_bytes()).unwrap()
}

#[test]
fn what_breaks_names_each_party_and_is_clean_only_if_all_is_known() {
    assert!(breaks::report(&document(""), Ban::Cnsa2).is_clean);
    let more = r#",{"operation":"tls-key-agreement","algorithm":"X25519","party":"listener:web","protocol":"TLSv1_3","count":9,"first_ms":1,"last_ms":2}
        ,{"operation":"HashData","algorithm":"rot13","party":"token:ci","protocol":"v1","count":1,"first_ms":1,"last_ms":2}"#;
    let report = breaks::report(&document(more), Ban::NoClassical);
    assert!(!report.is_clean);
    let expected = "listener:web\n  breaks: tls-key-agreement X25519 over TLSv1_3: 9 uses, the last at 1970-01-01T00:00:00.002Z\n\
        token:ci\n  not known, judge it yourself: HashData rot13 over v1: 1 uses, the last at 1970-01-01T00:00:00.002Z\n\
        no-classical: 2 of 3 rows break, of 2 parties\n";
    assert_eq!(report.text, expected);
}

#[test]
fn operations_without_a_row_make_an_answer_incomplete_and_are_shown() {
    let text = ROWS.replace("ROWS", "").replace(r#""overflow":{"count":0"#, r#""overflow":{"count":12"#);
    let document = Document::parse(text.as_bytes()).unwrap();
    let report = breaks::report(&document, Ban::Cnsa2);
    assert!(!report.is_clean && report.text.contains("12 operations had no room"), "{}", report.text);
    assert!(table::text(&document).contains("12 operations had no room"));
    assert!(cyclonedx::bom(&document).to_string().contains(r#"{"name":"sealway:inventory:overflow","value":"12"}"#));
}

#[test]
fn hostile_names_stay_on_their_line() {
    let more = r#",{"operation":"a\nb","algorithm":"\u001b[2J","key":"\u202ek\u0000","party":"x\r\ny","protocol":"p\t","count":1,"first_ms":1,"last_ms":2}"#;
    let document = document(more);
    let all =
        [table::text(&document), breaks::report(&document, Ban::Cnsa2).text, cyclonedx::bom(&document).to_string()];
    for text in all {
        let is_hostile = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(is_hostile) && text.lines().count() <= 4, "{text:?}");
    }
}

#[test]
fn equal_inventories_give_equal_bytes_whatever_the_order_of_their_sources() {
    let more = r#",{"operation":"HashData","algorithm":"sha-256","party":"token:ci","protocol":"v1","count":1,"first_ms":1,"last_ms":2}"#;
    let merged = |documents: [Document; 2]| cyclonedx::bom(&Document::merge(documents).unwrap()).to_string();
    assert_eq!(merged([document(""), document(more)]), merged([document(more), document("")]));
}
