//! References between objects: which may cross namespaces, and which namespaces a selector names.

use std::collections::BTreeMap;

use crate::objects::{GATEWAY_GROUP, LabelExpression, LabelSelector, Reference, Resources};

/// Label that every namespace has, with its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

impl Resources {
    /// True if objects of the Gateway API of a kind and namespace may refer to an object of the core group.
    pub(crate) fn is_granted(&self, from: (&str, &str), to_kind: &str, namespace: &str, name: &str) -> bool {
        let (from_kind, from_namespace) = from;
        from_namespace == namespace
            || self.grants.iter().filter(|grant| grant.metadata.namespace == namespace).any(|grant| {
                let is_from = grant.spec.from.iter().any(|from| {
                    from.group == GATEWAY_GROUP && from.kind == from_kind && from.namespace == from_namespace
                });
                let is_to = grant.spec.to.iter().any(|to| {
                    to.group.is_empty() && to.kind == to_kind && to.name.as_ref().is_none_or(|only| only == name)
                });
                is_from && is_to
            })
    }

    /// True if a selector names a namespace. A namespace that is not among the objects has its name as its only label.
    pub(crate) fn is_selected(&self, namespace: &str, selector: &LabelSelector) -> bool {
        let found = self.namespaces.iter().find(|object| object.metadata.name == namespace);
        let mut labels = found.map(|object| object.metadata.labels.clone()).unwrap_or_default();
        labels.insert(NAMESPACE_NAME.into(), namespace.into());
        selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && selector.match_expressions.iter().all(|expression| expression.holds(&labels))
    }
}

impl LabelExpression {
    /// True if labels fulfil the expression. An unknown operator is never fulfilled.
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let is_in = value.is_some_and(|value| self.values.contains(value));
        match self.operator.as_str() {
            "In" => is_in,
            "NotIn" => !is_in,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

impl Reference {
    /// Returns the kind, which is `default` if it is omitted.
    pub(crate) fn kind_or<'a>(&'a self, default: &'a str) -> &'a str {
        self.kind.as_deref().unwrap_or(default)
    }

    /// Returns the namespace, which is that of the referring object if it is omitted.
    pub(crate) fn namespace_or<'a>(&'a self, own: &'a str) -> &'a str {
        self.namespace.as_deref().unwrap_or(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_selector_holds_where_every_requirement_does() {
        let mut resources = Resources::default();
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}});
        resources.add(namespace).unwrap();
        let holds =
            |selector: serde_json::Value| resources.is_selected("shop", &serde_json::from_value(selector).unwrap());
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "team", "operator": operator, "values": values}]});
        assert!(holds(json!({})));
        assert!(holds(json!({"matchLabels": {"team": "a", NAMESPACE_NAME: "shop"}})));
        assert!(!holds(json!({"matchLabels": {"team": "a", NAMESPACE_NAME: "other"}})));
        assert!(holds(expression("In", &["a", "b"])) && !holds(expression("In", &["b"])));
        assert!(holds(expression("NotIn", &["b"])) && !holds(expression("NotIn", &["a"])));
        assert!(holds(expression("Exists", &[])) && !holds(expression("DoesNotExist", &[])));
        assert!(!holds(expression("Near", &["a"])));
    }
}
