//! The bounds of the admin listener: its connections, and bodies that nobody reads.

use sealway_testkit::process::ADMIN_TOKEN;
use sealway_testkit::raw_http::{Connection, Request};

use crate::admin::{health, start};
use crate::upstreams::until;

#[test]
fn the_admin_listener_reads_no_body_and_its_connections_are_bounded_and_of_no_other_listener() {
    let server = start();
    let token = format!("Bearer {ADMIN_TOKEN}");
    // A gigabyte is announced, and one byte of it sent.
    let head = format!(
        "POST /admin/listeners/other/stop HTTP/1.1\r\nHost: admin\r\nAuthorization: {token}\r\nContent-Length: 1073741824\r\n\r\n{{"
    );
    let mut connection = Connection::open(server.admin()).unwrap();
    connection.write(head.as_bytes()).unwrap();
    let answer = connection.read_answer("POST").unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{}", answer.text());
    drop(connection);

    let is_served = || Request::get("/health").send(server.admin()).is_ok_and(|answer| answer.status != 503);
    let mut silent = Vec::new();
    until("no place is left", || {
        silent.push(Connection::open(server.admin()).unwrap());
        !is_served()
    });
    // Some that are counted here may have been rejected: the request above takes a place as well.
    assert!((63..=80).contains(&silent.len()), "{} silent connections took all places", silent.len());
    assert_eq!(health(server.addresses[0]).unwrap(), 200, "another listener has its own");
    silent.truncate(10);
    until("places are free again", is_served);
}
