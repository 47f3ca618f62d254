//! Choice of the requests that are sealed: `spec/routes.md`, with rules for paths only.

pub use sealway_proto::routes::SealMode;
use sealway_proto::routes::{Decision, Pattern, PatternInvalid, decide};

/// The rules, in the order of the calls: the first one that matches a path decides. Paths are compared byte for byte,
/// as sent and without their query.
#[derive(Clone, Debug)]
pub struct Routes {
    rules: Vec<(Pattern, SealMode)>,
    all: SealMode,
}

/// A rule that is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteInvalid {
    /// The path of the rule has no canonical form.
    #[error(transparent)]
    Path(#[from] PatternInvalid),
    /// An earlier rule matches all paths of this rule.
    #[error("the rule {path} is never reached: {earlier} before it names all its paths. Put {path} first")]
    Unreachable {
        /// The path of the rule.
        path: String,
        /// The path of the earlier rule.
        earlier: String,
    },
}

impl Default for Routes {
    fn default() -> Self {
        Routes::all(SealMode::Required)
    }
}

impl Routes {
    /// Sets the mode of every path that no rule matches. Leave it at `Required` if possible, so that forgotten paths
    /// are sealed.
    pub fn all(sealed: SealMode) -> Self {
        Routes { rules: Vec::new(), all: sealed }
    }

    /// Adds a rule for exactly this path.
    ///
    /// # Errors
    ///
    /// The path has no canonical form, or an earlier rule matches it.
    pub fn exact(self, path: impl Into<String>, sealed: SealMode) -> Result<Self, RouteInvalid> {
        self.with(Pattern::exact(path)?, sealed)
    }

    /// Adds a rule for every path with this prefix.
    ///
    /// # Errors
    ///
    /// The prefix has no canonical form, or an earlier rule matches all its paths: put the narrower rule first.
    pub fn prefix(self, prefix: impl Into<String>, sealed: SealMode) -> Result<Self, RouteInvalid> {
        self.with(Pattern::prefix(prefix)?, sealed)
    }

    fn with(mut self, pattern: Pattern, sealed: SealMode) -> Result<Self, RouteInvalid> {
        if let Some((earlier, _)) = self.rules.iter().find(|(earlier, _)| earlier.covers(&pattern)) {
            let (path, earlier) = (pattern.path().into(), earlier.path().into());
            return Err(RouteInvalid::Unreachable { path, earlier });
        }
        self.rules.push((pattern, sealed));
        Ok(self)
    }

    /// Returns the mode of a path; `None` for another spelling of a path that must be sealed.
    pub(crate) fn find(&self, path: &str) -> Option<SealMode> {
        let rules = self.rules.iter().map(|(pattern, sealed)| (pattern, *sealed, ()));
        const ANY: &Pattern = &Pattern::ANY;
        // The rest is sealed without a rule.
        let all = (self.all != SealMode::Required).then_some((ANY, self.all, ()));
        match decide(rules.chain(all), path) {
            Decision::Sealed(_) => Some(SealMode::Required),
            Decision::Optional(()) => Some(SealMode::Optional),
            Decision::Plain(()) => Some(SealMode::Off),
            Decision::Refused => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn vectors(kind: &str) -> Vec<Value> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/routes");
        let files = std::fs::read_dir(folder).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
        files
            .map(|bytes| serde_json::from_slice(&bytes).unwrap())
            .filter(|vector: &Value| vector["type"] == kind)
            .collect()
    }

    fn with(routes: Routes, rule: &Value) -> Result<Routes, RouteInvalid> {
        let sealed = match rule["sealed"].as_str().unwrap() {
            "required" => SealMode::Required,
            "optional" => SealMode::Optional,
            _ => SealMode::Off,
        };
        match rule["exact"].as_str() {
            Some(path) => routes.exact(path, sealed),
            None => routes.prefix(rule["prefix"].as_str().unwrap(), sealed),
        }
    }

    #[test]
    fn each_target_of_the_vectors_comes_to_its_decision() {
        let mut played = 0;
        for vector in vectors("routes") {
            let routes = vector["rules"].as_array().unwrap().iter().try_fold(Routes::default(), with).unwrap();
            for case in vector["cases"].as_array().unwrap() {
                let target = case["target"].as_str().unwrap();
                let decision = match routes.find(target.split('?').next().unwrap()) {
                    Some(SealMode::Required) => "sealed",
                    Some(SealMode::Optional) => "optional",
                    Some(SealMode::Off) => "plain",
                    None => "refused",
                };
                assert_eq!(decision, case["decision"], "{}: {target}", vector["name"]);
                played += 1;
            }
        }
        assert!(played >= 300, "{played}");
    }

    #[test]
    fn each_rejected_rule_set_is_an_error_at_its_wrong_rule() {
        let all = vectors("routes-rejected");
        for vector in &all {
            let mut rules = vector["rules"].as_array().unwrap().iter();
            let at = usize::try_from(vector["rule"].as_u64().unwrap()).unwrap();
            let routes = rules.by_ref().take(at).try_fold(Routes::default(), with).unwrap();
            let reason = match with(routes, rules.next().unwrap()).unwrap_err() {
                RouteInvalid::Path(_) => "path",
                RouteInvalid::Unreachable { .. } => "unreachable",
            };
            assert_eq!(reason, vector["reason"], "{}", vector["name"]);
        }
        assert!(all.len() > 10);
    }

    #[test]
    fn paths_without_a_rule_are_plain_if_configured() {
        let routes = Routes::all(SealMode::Off).exact("/pay", SealMode::Required).unwrap();
        assert_eq!(routes.find("/other"), Some(SealMode::Off));
        assert_eq!(routes.find("/PAY"), None);
        assert_eq!(Routes::all(SealMode::Off).find("//a"), Some(SealMode::Off));
    }
}
