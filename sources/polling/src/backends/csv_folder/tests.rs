use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::model::{
    Carries, Checkpoint, DataStream, FetchReason, Payload, Record, RecordChange, RecordSet, RefusedRow, SourceInstant,
    Timestamp,
};

struct Folder {
    dir: TempDir,
    backend: CsvFolder,
}

impl Folder {
    fn of(settings: impl FnOnce(&Path) -> CsvFolderSettings) -> Self {
        let dir = TempDir::new().unwrap();
        let settings = settings(dir.path()).with_settle(Duration::ZERO);
        Self { backend: CsvFolder::new(settings), dir }
    }

    fn products(reconciled: bool) -> Self {
        Self::of(|path| {
            CsvFolderSettings::records(path, ["id"])
                .with_column("id", ColumnType::Integer)
                .with_column("price", ColumnType::Decimal)
                .with_reconciled(reconciled)
        })
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn append(&self, name: &str, text: &str) {
        use std::io::Write;
        let mut file = fs::OpenOptions::new().append(true).open(self.dir.path().join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    async fn keys(&self) -> Vec<String> {
        let streams = self.backend.discover_streams().await.unwrap();
        streams.into_iter().map(|stream| stream.key.to_string()).collect()
    }

    async fn fetch(&self, key: &str, checkpoint: Option<&str>) -> Option<Result<Page, BackendError>> {
        let streams = self.backend.discover_streams().await.unwrap();
        let descriptor = streams.into_iter().find(|stream| stream.key.as_str() == key).unwrap();
        let mode = if self.backend.reconciled() { Mode::Reconciled } else { Mode::Append };
        let request = StreamFetchRequest {
            stream: DataStream { id: key.to_owned(), descriptor },
            mode,
            since: None,
            checkpoint: checkpoint.map(|text| Checkpoint(text.to_owned())),
            reason: FetchReason::Cycle,
        };
        let mut fetches = self.backend.fetch_readings(&[request]).await.unwrap();
        assert!(fetches.len() <= 1);
        fetches.pop().map(|fetch| fetch.outcome)
    }

    async fn page(&self, key: &str, checkpoint: Option<&str>) -> Option<Page> {
        self.fetch(key, checkpoint).await.map(Result::unwrap)
    }

    /// All pages from a checkpoint on, their keys, and the last checkpoint.
    async fn read_on(&self, key: &str, checkpoint: Option<String>) -> (Vec<String>, Option<String>) {
        let (mut keys, mut mark) = (Vec::new(), checkpoint);
        while let Some(page) = self.page(key, mark.as_deref()).await {
            let Payload::Records(records) = page.payload else { panic!("records") };
            keys.extend(records.into_iter().map(|change| match change {
                RecordChange::Present(record) => record.key.join(":"),
                RecordChange::Removed(key) => panic!("a file of lines removes nothing: {key:?}"),
            }));
            mark = Some(page.checkpoint.unwrap().0);
            if !page.more {
                break;
            }
        }
        (keys, mark)
    }
}

fn set(page: Page) -> (Vec<Record>, u64) {
    let Payload::RecordSet(RecordSet { records, rows_read }) = page.payload else { panic!("a set") };
    (records, rows_read)
}

fn record(key: &str, fields: serde_json::Value) -> Record {
    let serde_json::Value::Object(fields) = fields else { panic!("an object") };
    Record::new(key, fields)
}

#[tokio::test]
async fn each_file_is_a_stream_with_the_columns_of_its_first_line() {
    let folder = Folder::products(true);
    folder.write("products.csv", "\u{feff}id,name,price\n1,apple,1.50\n");
    folder.write(".hidden.csv", "id\n1\n");
    folder.write("half.csv.part", "id\n1\n");
    folder.write("empty.csv", "");
    fs::create_dir(folder.dir.path().join("old.csv")).unwrap();
    let streams = folder.backend.discover_streams().await.unwrap();
    assert_eq!(streams.len(), 1, "{streams:?}");
    let Carries::Records(shape) = &streams[0].carries else { panic!("records") };
    assert_eq!(shape.key, ["id"]);
    assert_eq!(shape.kind("id"), ColumnType::Integer);
    assert_eq!((shape.kind("name"), shape.kind("price")), (ColumnType::Text, ColumnType::Decimal));
    assert_eq!(shape.columns.len(), 3);
}

#[tokio::test]
async fn a_reconciled_file_is_the_whole_truth() {
    let folder = Folder::products(true);
    folder.write("products.csv", "id,name,price\n1,\"apple, red\",1.50\n2,,\n3,pear,3");
    let (records, read) = set(folder.page("products", None).await.unwrap());
    assert_eq!(read, 3);
    let wanted = [
        record("1", json!({"id": "1", "name": "apple, red", "price": "1.50"})),
        record("2", json!({"id": "2", "name": "", "price": null})),
        record("3", json!({"id": "3", "name": "pear", "price": "3"})),
    ];
    assert_eq!(records, wanted, "a last line needs no line break");
}

#[tokio::test]
async fn a_bad_line_is_named_and_the_others_come() {
    let folder = Folder::products(true);
    folder.write("products.csv", b"id,name\n1,a\n2\n3,\xff\n4,d\n5,e\n5,f\n");
    let page = folder.page("products", None).await.unwrap();
    let reasons: Vec<_> = page.refused.iter().map(|refusal| refusal.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "products.csv line 3: it has 1 fields, not 2",
            "products.csv line 4: field 2 is not UTF-8",
            "products.csv: several lines have one key (key=5)"
        ]
    );
    assert_eq!(page.refused[0].row, RefusedRow::Unknown);
    assert_eq!(page.refused[2].row, RefusedRow::Under(vec!["5".to_owned()]));
    let (records, read) = set(page);
    assert_eq!((records.len(), read), (2, 6));
}

#[tokio::test]
async fn a_line_that_is_not_finished_waits_in_append_mode() {
    let folder = Folder::products(false);
    folder.write("products.csv", "id,name\n1,a\n2,\"two\nli");
    // Fresh for ever, so that nothing but a line break finishes a line.
    let backend = CsvFolder::new(CsvFolderSettings::records(folder.dir.path(), ["id"]));
    let settings = CsvFolderSettings { settle: Duration::from_secs(1), ..(*backend.settings).clone() };
    let header = row::Header::read("products.csv", b"id,name\n", &settings).unwrap();
    let lines = header.lines(b"1,a\n2,\"two\nli", 1, &HashMap::new(), false, false);
    assert_eq!((lines.end, lines.lines), (4, 1));
    let lines = header.lines(b"1,a\n2,\"two\nlines\"\n", 1, &HashMap::new(), false, false);
    assert_eq!(lines.end, 18);
    // Left alone long enough, it is all there will be.
    let (keys, _) = folder.read_on("products", None).await;
    assert_eq!(keys, ["1", "2"]);
}

#[tokio::test]
async fn append_mode_goes_on_behind_what_was_read() {
    let folder = Folder::products(false);
    folder.write("products.csv", "id,name\n1,a\n2,b\n");
    let (keys, mark) = folder.read_on("products", None).await;
    assert_eq!(keys, ["1", "2"]);
    assert!(folder.page("products", mark.as_deref()).await.is_none(), "nothing new");
    folder.append("products.csv", "3,c\n");
    let (keys, mark) = folder.read_on("products", mark).await;
    assert_eq!(keys, ["3"]);
    // Another process goes on from the same mark.
    let again = Folder { dir: folder.dir, backend: CsvFolder::new((*folder.backend.settings).clone()) };
    again.append("products.csv", "4,d");
    let (keys, _) = again.read_on("products", mark).await;
    assert_eq!(keys, ["4"]);
}

#[tokio::test]
async fn a_file_that_was_rewritten_is_read_from_its_beginning() {
    let folder = Folder::products(false);
    folder.write("products.csv", "id,name\n1,a\n2,b\n");
    let (_, mark) = folder.read_on("products", None).await;
    for text in
        ["id,name\n1,A\n2,b\n3,c\n", "id,name\n1,a\n", "id,name,price\n1,a,\n2,b,\n", "name,id\na,1\nb,2\nc,3\n"]
    {
        folder.write("products.csv", text);
        let (keys, _) = folder.read_on("products", mark.clone()).await;
        assert_eq!(keys.len(), text.lines().count() - 1, "{text}");
    }
    let (keys, _) = folder.read_on("products", Some("of another backend".to_owned())).await;
    assert_eq!(keys, ["1", "2", "3"]);
}

#[tokio::test]
async fn a_large_file_comes_in_pages_and_nothing_is_left_out() {
    let folder = Folder::products(false);
    let mut text = "id,name\n".to_owned();
    let filler = "x".repeat(300);
    (0..9_000).for_each(|id| text.push_str(&format!("{id},{filler}\n")));
    // One line longer than a page.
    text.push_str(&format!("9000,\"{}\"\n9001,z\n", "y\n".repeat(900_000)));
    folder.write("products.csv", &text);
    let (keys, _) = folder.read_on("products", None).await;
    let wanted: Vec<_> = (0..9_002).map(|id| id.to_string()).collect();
    assert_eq!(keys, wanted);
}

#[tokio::test]
async fn a_header_that_does_not_fit_fails_its_own_stream_only() {
    let folder = Folder::products(true);
    folder.write("good.csv", "id\n1\n");
    folder.write("bad.csv", "key,name\n1,a\n");
    folder.write("twice.csv", "id,id\n1,1\n");
    assert_eq!(folder.keys().await, ["bad", "good", "twice"]);
    let error = folder.fetch("bad", None).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "bad.csv line 1: the column id is missing (columns=key, name)");
    assert!(folder.fetch("twice", None).await.unwrap().is_err());
    assert!(folder.fetch("good", None).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_folder_that_is_missing_is_said() {
    let backend = CsvFolder::new(CsvFolderSettings::records("/nowhere/at/all", ["id"]));
    let error = backend.discover_streams().await.unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Configuration);
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
}

#[tokio::test]
async fn readings_have_moments_numbers_and_pinned_replicates() {
    let folder = Folder::of(|path| CsvFolderSettings::readings(path, "at", "reading").with_replicate("rep"));
    let text = "at,rep,reading\n2026-01-31T12:00:00Z,north,1.5\n1769860801.5,south,2\nnever,north,3\n\
        2026-01-31T12:00:02Z,north,warm\n2026-01-31T12:00:03Z,east,4\n2026-01-31T12:00:04Z,north,5\n";
    folder.write("cellar.csv", text);
    let streams = folder.backend.discover_streams().await.unwrap();
    let Carries::Readings(shape) = &streams[0].carries else { panic!("readings") };
    assert_eq!(shape.replicates, ["north", "south", "east"]);
    let pin = |name: &str, index| ColumnAssignment { name: name.to_owned(), index, active: true };
    let cellar = StreamKey::new("cellar");
    folder.backend.apply_replicate_assignments(&cellar, &[pin("north", 4), pin("south", 2)]).await.unwrap();
    let page = folder.page("cellar", None).await.unwrap();
    let Payload::Readings(readings) = page.payload else { panic!("readings") };
    assert_eq!(readings.len(), 3, "what has no index yet, and all behind it, waits");
    assert_eq!((readings[0].value, readings[0].replicate), (1.5, 4));
    assert_eq!(readings[1].at, SourceInstant::Seconds(1_769_860_801.5));
    assert_eq!(readings[2].at, SourceInstant::Text("never".to_owned()), "the driver judges moments");
    let noon = Timestamp::utc(2026, 1, 31, 12, 0, 2).unwrap();
    assert_eq!(page.refused.len(), 1);
    assert_eq!(page.refused[0].reason, "cellar.csv line 5: \"warm\" is no number");
    let RefusedRow::At(at) = &page.refused[0].row else { panic!("a moment") };
    assert_eq!(at.decode().unwrap(), noon);
    folder.backend.apply_replicate_assignments(&cellar, &[pin("north", 4), pin("east", 5)]).await.unwrap();
    let page = folder.page("cellar", page.checkpoint.as_ref().map(|mark| mark.0.as_str())).await.unwrap();
    assert_eq!(page.payload.len(), 2);
}
