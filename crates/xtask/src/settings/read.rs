//! Conversion of the source of the `Raw…` types to [`Section`]s.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use syn::{Attribute, Expr, Fields, GenericArgument, Item, ItemEnum, ItemStruct, Lit, Meta, PathArguments, Type};

use super::numbers::most;
use super::{Kind, Section, Setting};

/// The crates that declare settings, and the constants in their types.
const CRATES: &[&str] = &["cli", "gateway", "sessions", "runtime", "proto"];

/// Texts of files by their paths from the root. A file is parsed only when it contains a name that is looked up.
pub(super) struct Sources(pub(super) BTreeMap<String, String>);

/// The type of a setting, as parsed.
struct SettingType {
    kind: Kind,
    default: Option<Value>,
    may_be_omitted: bool,
}

impl SettingType {
    fn required(kind: Kind) -> Self {
        SettingType { kind, default: None, may_be_omitted: false }
    }

    fn omissible(kind: Kind, default: Option<Value>) -> Self {
        SettingType { kind, default, may_be_omitted: true }
    }
}

impl Sources {
    pub(super) fn load(root: &Path) -> anyhow::Result<Self> {
        let mut files = BTreeMap::new();
        let mut folders: Vec<_> = CRATES.iter().map(|name| root.join("crates").join(name).join("src")).collect();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
                    files.insert(name, std::fs::read_to_string(&path)?);
                }
            }
        }
        Ok(Sources(files))
    }

    /// Reads the struct `name` of `file`, and those of its fields.
    pub(super) fn section(&self, file: &str, name: &str) -> anyhow::Result<Section> {
        match self.declared(file, name)?.kind {
            Kind::Section(section) => Ok(section),
            _ => bail!("{name} is not a struct"),
        }
    }

    /// Reads the struct or the enum `name`.
    fn declared(&self, file: &str, name: &str) -> anyhow::Result<SettingType> {
        let (file, item) = self.find(file, &["struct", "enum"], name, |item| match item {
            Item::Struct(ItemStruct { ident, attrs, .. }) | Item::Enum(ItemEnum { ident, attrs, .. }) => {
                (ident == name && is_serialized(attrs)).then(|| item.clone())
            }
            _ => None,
        })?;
        let typed = match &item {
            Item::Struct(item) => {
                self.read_struct(&file, item).map(|section| SettingType::required(Kind::Section(section)))
            }
            Item::Enum(item) => read_enum(item),
            _ => bail!("{name} is neither a struct nor an enum"),
        };
        typed.with_context(|| format!("{file}: {name}"))
    }

    fn read_struct(&self, file: &str, item: &ItemStruct) -> anyhow::Result<Section> {
        let has_defaults = serde_words(&item.attrs).iter().any(|word| word == "default");
        let mut settings = Vec::new();
        let Fields::Named(fields) = &item.fields else { bail!("not a struct with named fields") };
        for field in &fields.named {
            let words = serde_words(&field.attrs);
            if words.iter().any(|word| word == "skip") {
                continue;
            }
            let ident = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
            let key = renamed(&words).unwrap_or(ident);
            let mut typed = self.typed(file, &field.ty).with_context(|| key.clone())?;
            typed.may_be_omitted |= has_defaults;
            settings.push(setting(key, &field.attrs, typed)?);
        }
        Ok(Section { id: format!("{file} {}", item.ident), settings })
    }

    fn typed(&self, file: &str, ty: &Type) -> anyhow::Result<SettingType> {
        let (name, arguments) = name_and_arguments(ty)?;
        let inner = |index: usize| match arguments.get(index) {
            Some(GenericArgument::Type(ty)) => self.typed(file, ty),
            _ => bail!("{name}: expected a type in <>"),
        };
        let number = |index: usize| self.number(file, arguments.get(index).context("expected a number in <>")?);
        Ok(match name.as_str() {
            "Option" => {
                let inner = inner(0)?;
                SettingType::omissible(inner.kind, inner.default)
            }
            "Vec" => SettingType::required(Kind::List(Box::new(inner(0)?.kind))),
            "BTreeMap" => SettingType::required(Kind::ByName(Box::new(inner(1)?.kind))),
            "Number" => {
                SettingType::omissible(Kind::Number { min: number(2)?, max: number(3)? }, Some(number(1)?.into()))
            }
            "Within" => SettingType::omissible(Kind::Number { min: number(1)?, max: number(2)? }, None),
            "Flag" => {
                let Some(GenericArgument::Const(Expr::Lit(literal))) = arguments.first() else { bail!("Flag<true>") };
                let Lit::Bool(default) = &literal.lit else { bail!("Flag<true>") };
                SettingType::omissible(Kind::Flag, Some(default.value.into()))
            }
            "bool" => SettingType::required(Kind::Flag),
            "u8" | "u32" | "u64" | "usize" => {
                SettingType::required(Kind::Number { min: 0, max: most(&name).unwrap_or(u64::MAX) })
            }
            "String" => SettingType::required(Kind::Text),
            "FilePath" => SettingType::required(Kind::Path),
            "OneOrMany" => SettingType::required(Kind::TextOrList),
            _ => self.declared(file, &name)?,
        })
    }

    /// Finds the declaration of a name: in the file itself, else in one of its crate, else in one of any crate.
    pub(super) fn find<T>(
        &self,
        from: &str,
        keywords: &[&str],
        name: &str,
        pick: impl Fn(&Item) -> Option<T>,
    ) -> anyhow::Result<(String, T)> {
        let has_it = |text: &str| keywords.iter().any(|keyword| text.contains(&format!("{keyword} {name}")));
        let of_crate = |path: &str| path.split("/src/").next().unwrap_or_default().to_owned();
        let tiers: [&dyn Fn(&str) -> bool; 3] =
            [&|path| path == from, &|path| of_crate(path) == of_crate(from), &|_| true];
        for tier in tiers {
            let mut found = Vec::new();
            for (path, text) in self.0.iter().filter(|(path, text)| tier(path) && has_it(text)) {
                let parsed = syn::parse_file(text).with_context(|| path.clone())?;
                found.extend(parsed.items.iter().filter_map(|item| Some((path.clone(), is_public(item), pick(item)?))));
            }
            if found.len() > 1 {
                found.retain(|(_, is_public, _)| *is_public);
            }
            ensure!(found.len() <= 1, "{name} is declared in {} places", found.len());
            if let Some((path, _, item)) = found.pop() {
                return Ok((path, item));
            }
        }
        bail!("{name} is not declared in crates/{{{}}}", CRATES.join(","))
    }
}

/// Returns the words that stand for an enum's variants, and the default one.
fn read_enum(item: &ItemEnum) -> anyhow::Result<SettingType> {
    let (mut words, mut default) = (Vec::new(), None);
    let style =
        serde_words(&item.attrs).into_iter().find_map(|word| word.strip_prefix("rename_all=").map(str::to_owned));
    for variant in &item.variants {
        let name = variant.ident.to_string();
        let word = match (renamed(&serde_words(&variant.attrs)), style.as_deref()) {
            (Some(word), _) => word,
            (None, Some("lowercase")) => name.to_lowercase(),
            (None, Some("snake_case")) => crate::codegen::snake(&name),
            _ => bail!("{name}: expected rename, or rename_all in lowercase or snake_case"),
        };
        if variant.attrs.iter().any(|attribute| attribute.path().is_ident("default")) {
            default = Some(Value::from(word.clone()));
        }
        words.push(word);
    }
    Ok(SettingType { kind: Kind::Words(words), default, may_be_omitted: false })
}

fn is_public(item: &Item) -> bool {
    let visibility = match item {
        Item::Struct(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Const(item) => &item.vis,
        _ => return true,
    };
    matches!(visibility, syn::Visibility::Public(_))
}

/// Returns whether a type implements `Serialize`: every type of a configuration must, so that layers can be merged.
fn is_serialized(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("derive")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().contains("Serialize"))
    })
}

pub(super) fn name_and_arguments(ty: &Type) -> anyhow::Result<(String, Vec<GenericArgument>)> {
    let Type::Path(path) = ty else { bail!("expected a type by name") };
    let last = path.path.segments.last().context("expected a type by name")?;
    let arguments = match &last.arguments {
        PathArguments::AngleBracketed(list) => list.args.iter().cloned().collect(),
        _ => Vec::new(),
    };
    Ok((last.ident.to_string(), arguments))
}

/// Returns the content of `#[serde(…)]`, without spaces and quotes: `skip`, `rename=match`. A comma in a text separates nothing.
fn serde_words(attributes: &[Attribute]) -> Vec<String> {
    let lists = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    let texts = lists.filter_map(|attribute| attribute.meta.require_list().ok()).map(|list| list.tokens.to_string());
    texts.flat_map(|text| words_of(&text)).collect()
}

fn words_of(text: &str) -> Vec<String> {
    let (mut words, mut is_text) = (vec![String::new()], false);
    for letter in text.chars() {
        match letter {
            '"' => is_text = !is_text,
            ' ' => {}
            ',' if !is_text => words.push(String::new()),
            _ => words.last_mut().into_iter().for_each(|word| word.push(letter)),
        }
    }
    words
}

fn renamed(words: &[String]) -> Option<String> {
    words.iter().find_map(|word| word.strip_prefix("rename=").map(str::to_owned))
}

/// Builds a setting from its type and its doc comment.
fn setting(key: String, attributes: &[Attribute], typed: SettingType) -> anyhow::Result<Setting> {
    let (mut shown_type, mut shown_default, mut meaning) = (None, None, Vec::new());
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(doc) = &attribute.meta else { continue };
        let Expr::Lit(literal) = &doc.value else { continue };
        let Lit::Str(line) = &literal.lit else { continue };
        let line = line.value().trim().to_owned();
        if let Some(text) = line.strip_prefix("- type: ") {
            shown_type = Some(text.to_owned());
        } else if let Some(text) = line.strip_prefix("- default: ") {
            shown_default = Some(text.to_owned());
        } else {
            ensure!(shown_type.is_none() && shown_default.is_none(), "{key}: `- type:` and `- default:` end a comment");
            meaning.push(line);
        }
    }
    ensure!(!meaning.is_empty(), "{key}: expected a doc comment, which is its meaning in the reference");
    if let (Some(text), Some(default)) = (&mut shown_default, &typed.default) {
        *text = text.replace("{default}", &default.to_string());
    }
    // A default of one word in code is a value; any other is a sentence.
    let word = shown_default.as_deref().and_then(|text| text.strip_prefix('`')?.strip_suffix('`'));
    let word = word.filter(|word| !word.contains('`') && matches!(typed.kind, Kind::Text | Kind::Words(_)));
    let default = match (&shown_default, word) {
        (None, _) => typed.default,
        (Some(_), word) => word.map(|word| Value::from(word.trim_matches('"'))),
    };
    let is_required = !typed.may_be_omitted || shown_default.as_deref() == Some("required");
    Ok(Setting { key, meaning: meaning.join(" "), shown_type, shown_default, kind: typed.kind, default, is_required })
}
