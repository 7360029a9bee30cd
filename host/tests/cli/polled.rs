//! Polled sources as the commands see them.

use crate::program::Place;

fn config(source: &str) -> String {
    format!(
        "name: shop\nsource:\n  polling:\n    store: {{ sqlite: {{ path: store.db }} }}\n    {source}\n\
         sinks: {{ out: {{ jsonl: {{ path: docs.jsonl }} }} }}\ndead_letters: {{ jsonl: {{ path: dead.jsonl }} }}\n\
         indexes: {{ products: {{ schema: {{ table: products, fields: {{ id: text }} }} }} }}\n"
    )
}

#[test]
fn check_tells_which_stream_can_not_be_read_and_makes_nothing() {
    for (source, words) in [
        (
            "http_json: { url: \"http://127.0.0.1:1\", streams: { products: { key: [id] } } }",
            "the stream can't be read (stream=products): the server can't be reached",
        ),
        (
            "sql_table: { url: \"sqlite:shop.db\", tables: { products: { reconciled: true } } }",
            "the source can't be asked: the database refuses: unable to open database file",
        ),
        (
            "sql_table: { url: \"postgres://me:hunter2@127.0.0.1:1/shop\", tables: { products: { cursor: at } } }",
            "the source can't be asked: the database can't be reached",
        ),
    ] {
        let place = Place::new(&config(source));
        let ended = place.run(&["check"]);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, 1, "{said}");
        assert!(said.contains(words), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
        let made: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(made, ["millstream.yaml"], "nothing was made");
        assert_eq!(place.run(&["check", "--offline"]).code, 0);
    }
}
