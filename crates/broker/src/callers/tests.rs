//! Tests of policies: permissions, denials, and defects of a policy.

use super::rules::OVERFLOW_ID;
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

#[test]
fn each_caller_may_do_what_its_rules_say_and_nothing_else() {
    let callers = Callers::parse(POLICY, Leniency::Strict).unwrap();
    for (uid, gid, operation, profile, key, is_allowed) in [
        (1000, 1, "SignCertificate", Some("Any"), Some("ca"), true),
        (1000, 1, "GenerateKey", None, Some("new"), true),
        (1001, 2000, "HashData", Some("Default"), None, true),
        // Names of our own wire.
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
        // A user id does not match a group.
        (2000, 5, "EncryptData", Some("Default"), None, false),
        // Permissions of different rules do not combine.
        (1001, 2000, "EncryptData", Some("Open"), Some("team-a-key"), false),
    ] {
        let allowed = callers.allows(&peer(uid, gid), operation, profile, key);
        assert_eq!(allowed.is_ok(), is_allowed, "{uid} {gid} {operation} {profile:?} {key:?}");
        if let Err(refusal) = allowed {
            assert_eq!(refusal, Refusal::new(Code::PermissionDenied, "not allowed to this caller"));
        }
    }
    let member = Peer { groups: [7, 2000].into(), ..peer(1001, 1) };
    assert!(callers.allows(&member, "HashData", Some("Default"), None).is_ok(), "a supplementary group counts");
    assert!(callers.may_use(&peer(1, 2000), "team-b") && !callers.may_use(&peer(1, 1), "team-b"));
    assert!(callers.may_see(&peer(1, 2000), "team-b") && !callers.may_see(&peer(1, 2000), "ca"));
}

#[test]
fn a_token_matches_its_own_rules_and_no_rule_of_the_socket() {
    let of = |name: &str| Peer::of_token(name.into());
    let policy = format!("{POLICY}- {{Token: billing, Profiles: [Rows], Operations: [EncryptData], Keys: [rows]}}\n");
    let policy = format!("{policy}- {{Uid: {OVERFLOW_ID}, Profiles: ['*'], Operations: ['*'], Keys: ['*']}}\n");
    let callers = Callers::parse(&policy, Leniency::Strict).unwrap();
    assert!(callers.allows(&of("billing"), "EncryptData", Some("Rows"), Some("rows")).is_ok());
    for (name, operation, profile) in
        [("billing", "HashData", "Open"), ("other", "EncryptData", "Rows"), ("billing", "DecryptData", "Rows")]
    {
        assert!(callers.allows(&of(name), operation, Some(profile), None).is_err(), "{name} {operation} {profile}");
    }
    // A user of the socket is no token, whatever the name.
    assert!(callers.allows(&peer(1, 1), "EncryptData", Some("Rows"), Some("rows")).is_err());
    assert!(Callers::only(OVERFLOW_ID).allows(&of("billing"), "Random", None, None).is_err());
    for wrong in [
        "- {Token: a b, Profiles: [], Operations: [], Keys: []}",
        "- {Token: a, Any: true, Profiles: [], Operations: [], Keys: []}",
    ] {
        assert!(Callers::parse(wrong, Leniency::Strict).is_err(), "{wrong}");
    }
}

#[test]
fn a_token_has_at_most_three_quarters_of_a_pool_and_another_one_the_rest() {
    let shares = Shares::bytes(100);
    let (one, two) = (Peer::of_token("one".into()), Peer::of_token("two".into()));
    let held = shares.take(&one, 75).unwrap();
    assert_eq!(shares.take(&one, 1).unwrap_err(), NoShare::Token { max: 75 });
    let rest = shares.take(&two, 25).unwrap();
    drop((held, rest));
    assert!(shares.take(&one, 75).is_ok());
}

#[test]
fn without_a_policy_the_owner_may_do_everything_and_root_nothing() {
    let callers = Callers::only(1000);
    assert!(callers.allows(&peer(1000, 7), "RotateKey", Some("A"), Some("k")).is_ok());
    for uid in [0, 999, 1001, OVERFLOW_ID] {
        assert!(callers.allows(&peer(uid, 1000), "Information", None, None).is_err(), "{uid}");
    }
}

#[test]
fn all_defects_of_a_policy_are_reported_at_once() {
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
        "line 1: [0]: expected one of Uid, Gid, Token, Any",
        "line 2: [1]: expected one of Uid, Gid, Token, Any",
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

#[test]
fn a_policy_has_at_most_1000_rules_and_names_of_1024_bytes() {
    let rule = |keys: &str| format!("- {{Uid: 1, Profiles: ['*'], Operations: ['*'], Keys: [{keys}]}}\n");
    let parse = |text: &str| Callers::parse(text, Leniency::Strict).map_err(|problems| problems[0].to_string());
    assert!(parse(&rule("a").repeat(1000)).is_ok());
    assert_eq!(parse(&rule("a").repeat(1001)).unwrap_err(), "line 1: expected 1 to 1000 rules");
    assert!(parse(&rule("a").repeat(1002)).is_err());
    let (longest, entry) = ("k".repeat(1024), |text: &str| rule(&format!("'{text}'")));
    for (keys, is_name) in [
        (longest.clone(), true),
        (format!("{longest}*"), true),
        (format!("{longest}k"), false),
        (format!("{longest}kk*"), false),
        (String::new(), false),
        ("**".to_owned(), false),
        ("*a".to_owned(), false),
    ] {
        let parsed = parse(&entry(&keys));
        assert_eq!(parsed.is_ok(), is_name, "{parsed:?}");
        if let Err(problem) = parsed {
            assert!(problem.contains("expected 1 to 1024 bytes, with * at the end alone"), "{problem}");
        }
    }
    assert!(parse(&entry(&longest)).unwrap().may_see(&peer(1, 1), &longest));
}

#[tokio::test]
async fn the_peer_is_the_process_that_connected() {
    let (one, _other) = UnixStream::pair().unwrap();
    let peer = Peer::of(&one).unwrap();
    assert_eq!(peer.uid, rustix::process::getuid().as_raw());
    assert_eq!(peer.gid, rustix::process::getgid().as_raw());
    assert_eq!(peer.pid, i32::try_from(std::process::id()).ok());
    let mut groups: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|group| group.as_raw()).collect();
    groups.sort_unstable();
    assert_eq!(*peer.groups, *groups);
}

#[test]
fn a_process_of_another_pid_namespace_has_no_number() {
    for (told, want) in [(None, None), (Some(0), None), (Some(-1), None), (Some(1), Some(1)), (Some(77), Some(77))] {
        assert_eq!(process_of(told), want, "{told:?}");
    }
}

#[test]
fn the_groups_of_a_process_are_read_for_its_own_user_alone() {
    let (uid, pid) = (rustix::process::getuid().as_raw(), i32::try_from(std::process::id()).unwrap());
    let mut groups: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|group| group.as_raw()).collect();
    groups.sort_unstable();
    assert_eq!(supplementary(uid, pid).as_deref(), Some(&groups[..]));
    assert_eq!(supplementary(uid + 1, pid), None);
    assert_eq!(supplementary(uid, i32::MAX), None, "there is no such process");
}

#[test]
fn callers_of_tokens_are_users_or_names_and_never_both() {
    let of = |peer: &Peer| peer.of_tokens();
    assert_eq!(of(&process(7, 5)), sealway_pkcs11::Caller { user: 7, process: 5 });
    assert_eq!(of(&peer(7, 1)), sealway_pkcs11::Caller { user: 7, process: 0 });
    // Whatever the hash of a name is, it is beyond all users.
    let names: Vec<String> = (0..32).map(|at| format!("token-{at}")).collect();
    let users: Vec<u64> = names.iter().map(|name| of(&Peer::of_token(name.as_str().into())).user).collect();
    assert!(users.iter().all(|user| *user >= 1 << 63), "{users:?}");
    assert_eq!(users.iter().collect::<std::collections::HashSet<_>>().len(), names.len());
    assert_eq!(of(&Peer::of_token("token-0".into())).user, users[0]);
}

#[test]
fn a_token_has_the_ids_of_nobody() {
    let token = Peer::of_token("billing".into());
    assert_eq!((token.uid, token.gid, token.pid), (65_534, 65_534, None));
    assert!(token.groups.is_empty());
}

#[test]
fn groups_are_those_of_a_process_of_the_same_user_and_of_no_other() {
    let status = |uids: &str| format!("Name:\tGroups: 7\nUid:\t{uids}\nGid:\t5\t5\t5\t5\nGroups:\t27 100 \n");
    assert_eq!(groups_of(1000, &status("1000\t1000\t1000\t1000")).as_deref(), Some(&[27, 100][..]));
    assert_eq!(groups_of(1000, "Uid:\t1000 1000 1000 1000\nGroups:\t \n").as_deref(), Some(&[][..]));
    // Another user, a process that has changed or can change its user, and invalid status texts.
    for uids in ["1001\t1001\t1001\t1001", "1000\t0\t0\t0", "1000\t1000\t0\t1000", "1000", ""] {
        assert_eq!(groups_of(1000, &status(uids)), None, "{uids}");
    }
    assert_eq!(groups_of(1000, "Uid:\t1000 1000 1000 1000\nGroups:\tx\n"), None);
    assert_eq!(groups_of(1000, ""), None);
}

fn process(uid: u32, pid: i32) -> Peer {
    Peer { pid: Some(pid), ..peer(uid, 0) }
}

#[test]
fn a_user_and_a_process_have_a_share_each_and_others_have_theirs() {
    let shares = Shares::places(1024);
    let mut held = Vec::new();
    for pid in 1..=3 {
        held.extend((0..256).map(|_| shares.take(&process(1, pid), 1).unwrap()));
        let full = shares.take(&process(1, pid), 1).unwrap_err();
        let user_full = NoShare::User { uid: 1, max: 768 };
        assert_eq!(full, if pid == 3 { user_full } else { NoShare::Process { pid, max: 256 } });
    }
    let nameless = Peer { uid: 1, ..Peer::default() };
    assert_eq!(shares.take(&nameless, 1).unwrap_err(), NoShare::User { uid: 1, max: 768 });
    held.extend((0..256).map(|_| shares.take(&process(2, 4), 1).unwrap()));
    assert_eq!(shares.take(&process(3, 5), 1).unwrap_err(), NoShare::All(1024));
    drop(held.pop());
    held.push(shares.take(&process(3, 5), 1).unwrap());
    drop(held);
    assert!(shares.used.lock().of.is_empty(), "a holder of none is not remembered");
}

/// Memory of a call from its beginning.
const CALL_LEN: usize = 8 * 1024;

fn call(bytes: &Arc<Shares>, uid: u32) -> Option<Share> {
    bytes.take(&process(uid, 1), CALL_LEN).ok()
}

fn used(bytes: &Shares) -> usize {
    let used = bytes.used.lock();
    assert_eq!(used.of.values().sum::<usize>(), used.all);
    used.all
}

#[test]
fn memory_of_all_calls_stays_within_the_budget_and_is_released() {
    let budget = Shares::bytes(4 * CALL_LEN);
    let (one, two) = (call(&budget, 1).unwrap(), call(&budget, 1).unwrap());
    assert!(one.grow(CALL_LEN - 1) && one.grow(0) && !one.grow(2) && two.grow(1) && !two.grow(1));
    assert!(call(&budget, 1).is_none(), "three quarters are one user's");
    let other = call(&budget, 2).unwrap();
    assert!(!other.grow(1) && call(&budget, 3).is_none(), "there is no more than all of it");
    drop(one);
    let three = call(&budget, 1).unwrap();
    drop((two, three, other));
    assert_eq!(used(&budget), 0);
    assert!(!call(&budget, 1).unwrap().grow(usize::MAX), "no sum overflows");
}

#[test]
fn concurrent_reservations_never_exceed_the_budget() {
    let budget = Shares::bytes(10 * CALL_LEN);
    std::thread::scope(|scope| {
        for uid in 0..4 {
            let budget = &budget;
            scope.spawn(move || {
                for _ in 0..2_000 {
                    let held: Vec<_> = (0..4).filter_map(|_| call(budget, uid)).collect();
                    assert!(budget.used.lock().all <= 10 * CALL_LEN);
                    drop(held);
                }
            });
        }
    });
    assert_eq!(used(&budget), 0);
}
