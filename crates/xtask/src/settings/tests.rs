use super::read::Sources;
use super::*;

const SOURCE: &str = "
/// Longest wait.
const HOUR_MS: u64 = 60 * 60_000;

#[derive(Deserialize, Serialize)]
pub struct RawGate {
    /// Wait before a request,
    /// in any case.
    wait_ms: Number<u64, { Limits::DEFAULT.wait as u64 }, 1, HOUR_MS>,
    /// Version of the wire.
    #[serde(rename = \"match\")]
    version: Option<Version>,
    /// Files.
    /// - type: paths
    /// - default: `none|any`
    files: Option<Vec<FilePath>>,
    /// The door.
    door: RawDoor,
    #[serde(skip)]
    cache: Cache,
}

#[derive(Deserialize, Serialize)]
struct RawDoor {
    /// Its state.
    is_open: Flag<false>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = \"snake_case\")]
enum Version {
    #[serde(rename = \"1.2\")]
    #[default]
    Old,
    BrandNew,
}
";

fn gate(source: &str) -> anyhow::Result<Section> {
    let limits = "impl Limits { const DEFAULT: Self = Limits { wait: 20 + 5 }; }";
    let files = [("crates/a/src/gate.rs", source), ("crates/b/src/lib.rs", limits)];
    Sources(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into())
        .section("crates/a/src/gate.rs", "RawGate")
}

fn root() -> Section {
    let kind = Kind::Section(gate(SOURCE).unwrap());
    let (key, meaning) = ("gate".to_owned(), "The gate.".to_owned());
    let (shown_type, shown_default, default) = (None, None, None);
    let settings = vec![Setting { key, meaning, shown_type, shown_default, kind, default, is_required: false }];
    Section { id: "root".to_owned(), settings }
}

#[test]
fn a_table_says_what_the_types_and_comments_say() {
    let page = tables::fill(&root(), "# Gate\n<!-- settings of gate -->\nold\n<!-- end -->\nMore.\n").unwrap();
    let table = "# Gate\n<!-- settings of gate -->\n\n\
        | key | type and bounds | default | meaning |\n| --- | --- | --- | --- |\n\
        | `wait_ms` | ms, 1 to 3600000 | 25 | Wait before a request, in any case. |\n\
        | `match` | `\"1.2\"`, `brand_new` | `\"1.2\"` | Version of the wire. |\n\
        | `files` | paths | `none\\|any` | Files. |\n\
        | `door` | section | required | The door. |\n\
        | `door.is_open` | true, false | false | Its state. |\n\n<!-- end -->\nMore.\n";
    assert_eq!(page, table);
    // Generating from the generated page changes nothing.
    assert_eq!(tables::fill(&root(), &page).unwrap(), page);
}

#[test]
fn a_section_without_a_table_is_found() {
    let err = tables::fill(&root(), "# Gate\n").unwrap_err().to_string();
    assert!(err.contains("<!-- settings of gate -->"), "{err}");
    assert!(tables::fill(&root(), "<!-- settings of door -->\n<!-- end -->\n").is_err());
    assert!(tables::fill(&root(), "<!-- settings of gate -->\n").is_err());
}

#[test]
fn the_schema_says_what_the_types_say() {
    let schema = schema::of(&root());
    let gate = &schema["properties"]["gate"];
    assert_eq!(gate["additionalProperties"], false);
    assert_eq!(gate["required"], serde_json::json!(["door"]));
    let wait = serde_json::json!({ "type": "integer", "minimum": 1, "maximum": 3_600_000, "default": 25,
        "description": "Wait before a request, in any case." });
    assert_eq!(gate["properties"]["wait_ms"], wait);
    assert_eq!(gate["properties"]["match"]["enum"], serde_json::json!(["1.2", "brand_new"]));
}

#[test]
fn a_field_without_a_comment_or_with_an_unknown_type_is_named() {
    for (from, to, says) in [
        ("    /// Its state.\n", "", "is_open: expected a doc comment"),
        ("snake_case", "kebab-case", "BrandNew: expected rename"),
        ("Flag<false>", "Colour", "Colour is not declared"),
        ("HOUR_MS>", "DAY_MS>", "DAY_MS is not declared"),
        ("`none|any`\n", "`none|any`\n    /// More.\n", "`- type:` and `- default:` end a comment"),
    ] {
        let err = format!("{:#}", gate(&SOURCE.replace(from, to)).unwrap_err());
        assert!(err.contains(says), "{says}: {err}");
    }
}
