use super::*;
use crate::flags::{Extra, resolve};
use crate::plan::{Arrival, Assertion, Text};

/// Plan of 12,000 threads with a ramp of 30 s, 10 loops, POST /api/test, and timeouts of 120 s.
const PLAN: &str = include_str!("published.jmx");

#[test]
fn the_published_plan_is_the_same_load() {
    let read = parse(PLAN).unwrap();
    assert_eq!(read.url.as_deref(), Some("https://localhost:8443/api/test"));
    let job = resolve(Some("http://localhost:8443/api/test"), &read.flags, Extra::default()).unwrap();
    let plan = job.plan;
    let Arrival::Closed { concurrency, ramp_share, loops } = plan.arrival else { panic!("it is closed") };
    assert_eq!((concurrency.max(), loops), (12_000.0, 10));
    assert!((ramp_share - 1.0 / 30.0).abs() < 1e-9, "{ramp_share}");
    assert_eq!((plan.stop.duration, plan.stop.requests), (None, None));
    assert_eq!((plan.timeouts.connect.as_secs(), plan.timeouts.request.as_secs()), (120, 120));
    assert_eq!(plan.request.method, http::Method::POST);
    assert_eq!(plan.request.counter_start, 30_000_000);
    let Some(Text::Template(body)) = plan.request.body else { panic!("the body is a template") };
    assert!(body.contains(r#""correlationId":"5ac318d4-{{counter}}""#) && body.contains("{{timestamp}}"), "{body}");
    assert_eq!(plan.request.path, "/api/test");
    let names: Vec<_> = plan.request.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["content-type", "x-request-id"]);
    let json = Assertion::JsonPath { path: "$.correlationId".into(), equals: "5ac318d4-{{counter}}".into() };
    assert_eq!(plan.assertions, [Assertion::Status(vec![200]), json]);
    assert!(plan.connections.reuse);
    let warnings = read.warnings.join("\n");
    assert!(warnings.contains("Test Plan/Users/Summary: listeners are left out"), "{warnings}");
}

#[test]
fn variables_of_the_plan_and_defaults_of_properties_are_their_values() {
    let variable = |name: &str, value: &str| {
        format!(
            "<elementProp name=\"{name}\" elementType=\"Argument\"><stringProp name=\"Argument.name\">{name}</stringProp>\
             <stringProp name=\"Argument.value\">{value}</stringProp></elementProp>"
        )
    };
    let all =
        [variable("host", "a.example"), variable("users", "${__P(users,300)}"), variable("a", "x${a}&amp;${host}")];
    let list = format!("<collectionProp name=\"Arguments.arguments\">{}</collectionProp>", all.concat());
    let plan = PLAN
        .replace("<collectionProp name=\"Arguments.arguments\"/>", &list)
        .replace(">12000<", ">${users}<")
        .replace(">30<", ">${__P(ramp,15)}<")
        .replace(">localhost<", ">${host}<");
    let read = parse(&plan).unwrap();
    assert_eq!(read.url.as_deref(), Some("https://a.example:8443/api/test"));
    assert_eq!(read.flags.arrival.concurrency.as_deref(), Some("300"));
    assert!(read.flags.arrival.ramp_percent_per_second.as_deref().unwrap().starts_with("6.66"));
    assert!(read.warnings.iter().any(|warning| warning.contains("the default is taken")), "{:?}", read.warnings);
    // A value is not searched for variables: one that is left in it is rejected.
    let err = parse(&plan.replace("/api/test<", "/${a}<")).unwrap_err().0;
    assert!(err.contains("${a} is not supported"), "{err}");
    let err = parse(&plan.replace("/api/test<", "/${unknown}<")).unwrap_err().0;
    assert!(err.contains("${unknown} is not supported"), "{err}");
    // The plan's counter takes precedence over a variable of the same name.
    let counted = plan.replace("name=\"Argument.name\">a<", "name=\"Argument.name\">counter<");
    let body = parse(&counted).unwrap().flags.request.body.unwrap();
    assert!(body.contains("{{counter}}"), "{body}");
}

#[test]
fn values_cannot_make_a_plan_longer_than_one_may_be() {
    let value = "v".repeat(100_000);
    let arguments = format!(
        "<elementProp elementType=\"Argument\"><stringProp name=\"Argument.name\">v</stringProp><stringProp \
         name=\"Argument.value\">{value}</stringProp></elementProp>"
    );
    let text = format!("<jmeterTestPlan><hashTree>{arguments}{}</hashTree></jmeterTestPlan>", "${v}".repeat(1000));
    assert!(parse(&text).unwrap_err().0.contains("longer than 16777216 bytes"));
}

fn refused(from: &str, to: &str) -> String {
    assert!(PLAN.contains(from), "{from}");
    parse(&PLAN.replace(from, to)).unwrap_err().0
}

#[test]
fn elements_that_would_change_the_load_are_rejected_with_their_path() {
    let timer = "<ConstantTimer testname=\"Wait\" enabled=\"true\"/><hashTree/><HeaderManager ";
    let err = refused("<HeaderManager ", timer);
    assert!(err.starts_with("Test Plan/Users/POST test/Wait: a ConstantTimer would change the load"), "{err}");
    let err = refused("${__time()}", "${__Random(1,5)}");
    assert!(err.contains("POST test: ${__Random(1,5)} is not supported"), "{err}");
    let err = refused(">12000<", ">many<");
    assert!(err.contains("ThreadGroup.num_threads: expected a whole number, not many"), "{err}");
    let err = refused("<ThreadGroup ", "<ThreadGroup enabled=\"false\" ");
    assert!(err.contains("ThreadGroup: expected one thread group"), "{err}");
    let err = refused(">40<", ">44<");
    assert!(err.contains("negated assertions are not supported"), "{err}");
}

#[test]
fn disabled_elements_are_ignored() {
    let off = "<ConstantTimer testname=\"Wait\" enabled=\"false\"/><hashTree/><HeaderManager ";
    assert!(parse(&PLAN.replace("<HeaderManager ", off)).is_ok());
}

#[test]
fn hostile_documents_are_refused_in_time() {
    let deep = format!("<jmeterTestPlan>{}", "<hashTree>".repeat(100_000));
    assert!(parse(&deep).unwrap_err().0.contains("deeper than"));
    let entities = "<!DOCTYPE x [<!ENTITY a \"aaaa\">]><jmeterTestPlan><hashTree>&a;</hashTree></jmeterTestPlan>";
    assert!(parse(entities).is_err());
    for text in ["", "<", "<a/>", "<jmeterTestPlan/>", "<jmeterTestPlan><hashTree/></jmeterTestPlan>"] {
        assert!(parse(text).is_err(), "{text}");
    }
}
