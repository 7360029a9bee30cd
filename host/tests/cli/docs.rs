//! What the documentation says, held against the program.

use serde_json::Value;

use crate::compose::read;
use crate::program::Place;

/// The YAML blocks of a page.
fn yaml_blocks(page: &str) -> Vec<String> {
    let text = read(page);
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(indent) = line.find("```yaml") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
        let block: Vec<&str> = block.iter().map(|line| line.get(indent..).unwrap_or_default()).collect();
        blocks.push(block.join("\n"));
    }
    blocks
}

#[test]
fn what_the_documentation_says_to_write_is_accepted() {
    let [schema, config] = <[String; 2]>::try_from(yaml_blocks("README.md")).unwrap();
    let [grammar] = <[String; 1]>::try_from(yaml_blocks("docs/schema.md")).unwrap();
    let of_keys = yaml_blocks("docs/configuration.md");
    assert_eq!(of_keys.len(), 4, "each section with an example has a whole one");
    for (config, schema) in of_keys.iter().map(|keys| (keys, &grammar)).chain([(&config, &schema)]) {
        let place = Place::new(config);
        place.write("users.schema.yaml", schema);
        let mut command = place.command(&["check", "--offline"]);
        let output = command
            .env("DATABASE_URL", "postgres://me@localhost/shop")
            .env("SHOP_URL", "mysql://me@localhost/shop")
            .env("SHOP_TOKEN", "hunter2")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn every_key_of_the_configuration_is_documented() {
    let schema = Place::new("").run(&["json-schema", "config"]).stdout;
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let page = read("docs/configuration.md");
    for part in [
        "PostgresSection",
        "PollingSection",
        "CsvFolderSection",
        "SqlTableSection",
        "TableSection",
        "DeleteLogSection",
        "EngineSection",
    ] {
        let keys = schema["$defs"][part]["properties"].as_object().unwrap_or_else(|| panic!("{part}: {schema:#}"));
        for key in keys.keys() {
            assert!(page.contains(&format!("`{key}`")), "docs/configuration.md does not say what {part}'s `{key}` is");
        }
    }
}
