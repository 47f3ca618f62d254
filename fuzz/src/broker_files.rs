//! `broker-profiles` and `broker-callers`: the text of the broker's two configuration files.

use std::collections::HashSet;

use sealway_broker::callers::{Callers, OPERATIONS, Peer};
use sealway_broker::profile::policy::{CertificatePolicy, KeyConstraints, SizeRange};
use sealway_broker::profile::{Leniency, Problem, Profile, Profiles, approval};

/// The fuzz target for a file of profiles.
pub fn profiles(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let strict = Profiles::parse(text, Leniency::Strict);
    match (&strict, Profiles::parse(text, Leniency::Lenient)) {
        (Ok(strict), Ok(lenient)) => {
            assert!(strict.iter().eq(lenient.iter()), "a lenient reading of what is in order says something else");
            assert_eq!(strict.require_fips(), lenient.require_fips());
            assert_eq!(strict.callers(), lenient.callers());
        }
        (Ok(_), Err(problems)) => panic!("taken strictly, and not leniently: {problems:?}"),
        (Err(_), Ok(lenient)) => {
            assert!(!lenient.warnings().is_empty(), "refused strictly, and no word of it leniently")
        }
        (Err(_), Err(problems)) => told(&problems, text),
    }
    match strict {
        Ok(profiles) => {
            told(profiles.warnings(), text);
            checked(&profiles);
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused for nothing");
            told(&problems, text);
        }
    }
}

/// Checks that problems are readable lines of text, and that the file has the lines that they name.
fn told(problems: &[Problem], text: &str) {
    // YAML also ends a line at a carriage return.
    let lines = text.bytes().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
    for problem in problems {
        assert!(problem.line as usize <= lines, "line {} of {lines}", problem.line);
        let said = problem.to_string();
        assert!(said.len() < 2_000, "{} bytes", said.len());
        let is_of_yaml = problem.key.is_empty() && problem.profile.is_empty();
        assert!(is_of_yaml || !said.contains('\n'), "{said:?}");
    }
}

fn checked(profiles: &Profiles) {
    let mut names = HashSet::new();
    for profile in profiles.iter() {
        assert!((1..=64).contains(&profile.name.len()) && names.insert(profile.name.as_str()), "{:?}", profile.name);
        assert_eq!(profiles.get(&profile.name), Some(profile));
        let bare =
            Profile { name: profile.name.clone(), deprecation: profile.deprecation.clone(), ..Profile::default() };
        assert_ne!(**profile, bare, "a profile without an operation");
        if let Some(encrypt) = profile.encrypt {
            assert!((12..=16).contains(&encrypt.tag_len));
        }
        assert!(profile.sign_key_size.is_none() || profile.sign.is_some());
        if let Some(policy) = &profile.certificate {
            certificate(policy);
        }
        // Reads only the profile, and must not panic for any profile.
        approval::unapproved(profile);
    }
    assert!((1..=1000).contains(&names.len()));
}

fn certificate(policy: &CertificatePolicy) {
    assert!(policy.not_before <= policy.not_after);
    assert!(policy.is_ca || policy.path_length.is_none());
    let full = |size: SizeRange| size.min <= size.max;
    let all = |side: KeyConstraints| [side.rsa, side.ecdsa, side.ml_dsa].into_iter().flatten().all(full);
    assert!(all(policy.subject) && all(policy.issuer), "a range without a size");
    assert!(policy.key_usage.0 < 1 << 9 && policy.purposes.len() <= 16 && policy.copies_extensions.len() <= 16);
}

/// The fuzz target for a file of callers.
pub fn callers(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let callers = match Callers::parse(text, Leniency::Strict) {
        Ok(callers) => callers,
        Err(problems) => {
            assert!(!problems.is_empty(), "refused for nothing");
            return told(&problems, text);
        }
    };
    told(callers.warnings(), text);
    let lenient = Callers::parse(text, Leniency::Lenient).unwrap_or_else(|problems| panic!("{problems:?}"));
    for (uid, gid) in [(0, 0), (1000, 1000), (65_534, 65_534)] {
        let peer = Peer { uid, gid, ..Peer::default() };
        for operation in OPERATIONS {
            for (profile, key) in
                [(None, None), (Some("Default"), None), (Some("Default"), Some("k")), (None, Some("k"))]
            {
                let allowed = callers.allows(&peer, operation, profile, key);
                assert_eq!(allowed, lenient.allows(&peer, operation, profile, key));
                match allowed {
                    // A caller allowed for this profile and key is allowed the operation in general, and sees both.
                    Ok(()) => {
                        assert!(profile.is_none_or(|profile| callers.may_use(&peer, profile)));
                        assert!(key.is_none_or(|key| callers.may_see(&peer, key)));
                        assert!(callers.allows(&peer, operation, None, None).is_ok());
                    }
                    Err(refusal) => assert_eq!(refusal.text, "not allowed to this caller"),
                }
            }
        }
    }
}
