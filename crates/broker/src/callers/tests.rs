//! Policies: whom they let, whom they refuse, and what is wrong with one.

use super::*;

const POLICY: &str = "\
- {Uid: 1000, Profiles: ['*'], Operations: ['*'], Keys: ['*']}
- Gid: 2000
  Profiles: [Default, 'team-*']
  Operations: [HashData, EncryptData]
  Keys: ['team-*']
- {Any: true, Profiles: [Open], Operations: [HashData], Keys: []}
";

fn peer(uid: u32, gid: u32) -> Peer {
    Peer { uid, gid, ..Peer::default() }
}

fn ask<'a>(operation: &'a str, profile: Option<&'a str>, key: Option<&'a str>) -> Ask<'a> {
    Ask { operation, profile, key }
}

#[test]
fn each_caller_may_do_what_its_rules_say_and_nothing_else() {
    let callers = Callers::parse(POLICY, Leniency::Strict).unwrap();
    for (uid, gid, operation, profile, key, is_allowed) in [
        (1000, 1, "SignCertificate", Some("Any"), Some("ca"), true),
        (1000, 1, "GenerateKey", None, Some("new"), true),
        (1001, 2000, "HashData", Some("Default"), None, true),
        // As our own wire calls it.
        (1001, 2000, "Hash", Some("team-a"), None, true),
        (1001, 2000, "Encrypt", Some("team-a"), Some("team-a-key"), true),
        (1001, 2000, "EncryptData", Some("team-a"), Some("ca"), false),
        (1001, 2000, "DecryptData", Some("team-a"), Some("team-a-key"), false),
        (1001, 2000, "HashData", Some("team"), None, false),
        (1001, 2000, "HashData", Some("default"), None, false),
        (1001, 2000, "HashData", Some("Open"), None, true),
        (1001, 2001, "HashData", Some("Open"), None, true),
        (1001, 2001, "HashData", Some("Default"), None, false),
        (1001, 2001, "SignData", Some("Open"), None, false),
        (1001, 2001, "NoSuchThing", Some("Open"), None, false),
        // A user's number is no group's.
        (2000, 5, "EncryptData", Some("Default"), None, false),
        // Rules do not add up to what none of them says.
        (1001, 2000, "EncryptData", Some("Open"), Some("team-a-key"), false),
    ] {
        let allowed = callers.allows(&peer(uid, gid), ask(operation, profile, key));
        assert_eq!(allowed.is_ok(), is_allowed, "{uid} {gid} {operation} {profile:?} {key:?}");
        if let Err(refusal) = allowed {
            assert_eq!(refusal, Refusal::new(Code::PermissionDenied, "not allowed to this caller"));
        }
    }
    let member = Peer { groups: [7, 2000].into(), ..peer(1001, 1) };
    assert!(callers.allows(&member, ask("HashData", Some("Default"), None)).is_ok(), "a supplementary group counts");
    assert!(callers.may_use(&peer(1, 2000), "team-b") && !callers.may_use(&peer(1, 1), "team-b"));
    assert!(callers.may_see(&peer(1, 2000), "team-b") && !callers.may_see(&peer(1, 2000), "ca"));
}

#[test]
fn without_a_policy_the_owner_may_do_everything_and_root_nothing() {
    let callers = Callers::only(1000);
    let everything = ask("RotateKey", Some("A"), Some("k"));
    assert!(callers.allows(&peer(1000, 7), everything).is_ok());
    for uid in [0, 999, 1001, OVERFLOW_ID] {
        assert!(callers.allows(&peer(uid, 1000), ask("Information", None, None)).is_err(), "{uid}");
    }
}

#[test]
fn everything_wrong_with_a_policy_is_told_at_once() {
    let text = "\
- {Uid: 1000, Gid: 1, Profiles: ['*'], Operations: ['*'], Keys: ['*']}
- {Profiles: ['*'], Operations: [Hash], Keys: ['*']}
- {Uid: -1, Profiles: ['*'], Operations: ['*'], Keys: ['*']}
- {Any: false, Profiles: ['*'], Operations: ['*'], Keys: ['*']}
- {Any: true, Profile: ['*'], Operations: '*'}
- {Uid: root, Profiles: ['a*b'], Operations: ['Hash*'], Keys: [[]]}
-
";
    let problems = Callers::parse(text, Leniency::Strict).unwrap_err();
    let told: Vec<String> = problems.iter().map(Problem::to_string).collect();
    for want in [
        "line 1: [0]: expected one of Uid, Gid, Any",
        "line 2: [1]: expected one of Uid, Gid, Any",
        "line 2: [1].Operations: unknown operation: Hash, ",
        "line 3: [2].Uid: -1 is not the number of a user or group",
        "line 4: [3].Any: expected true",
        "line 5: [4]: unknown key \"Profile\"; did you mean Profiles?",
        "line 5: [4].Profiles: required",
        "line 5: [4].Operations: expected a list, got a text",
        "line 5: [4].Keys: required",
        "line 6: [5].Uid: expected a whole number, got \"root\"",
        "line 6: [5].Profiles: expected 1 to 1024 bytes, with * at the end alone: a*b",
        "line 6: [5].Operations: unknown operation: Hash, ",
        "line 6: [5].Keys: expected a text, got a list",
        "line 7: [6]: expected a map, got nothing",
    ] {
        assert!(told.iter().any(|line| line.starts_with(want)), "{want} in {told:#?}");
    }
    for (text, want) in [("", "expected a list of rules"), ("[]", "expected 1 to 1000 rules"), ("Uid: 1", "got a map")]
    {
        let problems = Callers::parse(text, Leniency::Lenient).unwrap_err();
        assert!(problems[0].text.contains(want), "{text}: {problems:?}");
    }
    let text = "- {Uid: 65534, Profiles: ['*'], Operations: ['*'], Keys: ['*']}";
    assert_eq!(Callers::parse(text, Leniency::Strict).unwrap().warnings().len(), 1);
}
