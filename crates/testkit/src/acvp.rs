//! Sample vectors of NIST's ACVP for ML-KEM (FIPS 203) and ML-DSA (FIPS 204). scripts/setup-tests.sh fetches them; the
//! variable `ACVP` names another folder of them.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::place::root;

/// One case: its group, its question and its answer.
#[derive(Debug)]
pub struct Case {
    /// Number of the case in its set of vectors.
    pub id: u64,
    parts: [Value; 3],
}

impl Case {
    /// Returns a member of the answer, the question or the group, whichever has it.
    fn member(&self, name: &str) -> &Value {
        let found = self.parts.iter().find_map(|part| part.get(name));
        found.unwrap_or_else(|| panic!("case {} has no {name}", self.id))
    }

    /// Returns a member that is a text.
    pub fn text(&self, name: &str) -> &str {
        self.member(name).as_str().unwrap_or_else(|| panic!("case {}: {name} is no text", self.id))
    }

    /// Returns bytes, which the vectors write in hexadecimal digits.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let digits = self.text(name).as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        bytes.unwrap_or_else(|| panic!("case {}: {name} is not hexadecimal", self.id))
    }

    /// Returns a member that is a truth value.
    pub fn flag(&self, name: &str) -> bool {
        self.member(name).as_bool().unwrap_or_else(|| panic!("case {}: {name} is no truth value", self.id))
    }
}

/// Reads the cases of a set, for example `ML-DSA-sigVer-FIPS204`.
///
/// # Errors
/// The files are missing, or an answer does not belong to a question.
pub fn cases(set: &str) -> Result<Vec<Case>> {
    let folder = std::env::var_os("ACVP").map_or_else(|| root().join(".venv/acvp"), PathBuf::from).join(set);
    let read = |name: &str| -> Result<Value> {
        let file = folder.join(name);
        let bytes = std::fs::read(&file)
            .with_context(|| format!("{} is missing: run scripts/setup-tests.sh", file.display()))?;
        Ok(serde_json::from_slice(&bytes)?)
    };
    let (prompt, expected) = (read("prompt.json")?, read("expectedResults.json")?);
    let mut cases = Vec::new();
    let mut answers = groups(&expected)?.iter();
    for group in groups(&prompt)? {
        let answered = answers.next().context("a group without answers")?;
        ensure!(answered["tgId"] == group["tgId"], "the answers are of another group");
        let (questions, answers) = (tests(group)?, tests(answered)?);
        ensure!(questions.len() == answers.len(), "a case without an answer");
        let mut common = group.clone();
        common.as_object_mut().context("a group")?.remove("tests");
        for (question, answer) in questions.iter().zip(answers) {
            ensure!(question["tcId"] == answer["tcId"], "the answer is of another case");
            let id = question["tcId"].as_u64().context("a case without its number")?;
            cases.push(Case { id, parts: [answer.clone(), question.clone(), common.clone()] });
        }
    }
    Ok(cases)
}

fn groups(vectors: &Value) -> Result<&Vec<Value>> {
    vectors["testGroups"].as_array().context("vectors without groups")
}

fn tests(group: &Value) -> Result<&Vec<Value>> {
    group["tests"].as_array().context("a group without cases")
}
