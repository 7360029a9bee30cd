//! Whether the parts of a polled source fit together.

use super::{CsvFolderSection, HttpJsonSection, PollingSection, SqlTableSection, TableSection};

const AT: [&str; 2] = ["source", "polling"];

/// All that does not fit.
pub(super) fn check_polling(polling: &PollingSection, wrong: &mut impl FnMut(&[&str], &str, &str)) {
    if let Some(floor) = polling.floor.0
        && polling.every < floor
    {
        let message = format!("this is below the floor ({floor:?})");
        wrong(&[&AT[..], &["every"]].concat(), &message, "ask less often, or write `floor: off`");
    }
    let backends = polling.backends();
    match backends.as_slice() {
        [] => wrong(&AT, "nothing says what is polled", "write one such as `csv_folder: { path: inbox, key: [id] }`"),
        [_] => {}
        [first, others @ ..] => {
            for other in others {
                let message = format!("`{first}` says already what is polled");
                wrong(&[&AT[..], &[other]].concat(), &message, "keep one of the two");
            }
        }
    }
    if let Some(folder) = &polling.csv_folder {
        check_folder(folder, wrong);
    }
    if let Some(tables) = &polling.sql_table {
        check_tables(tables, wrong);
    }
    if let Some(api) = &polling.http_json {
        check_api(api, wrong);
    }
}

fn check_folder(folder: &CsvFolderSection, wrong: &mut impl FnMut(&[&str], &str, &str)) {
    let at = |key: &'static str| ["source", "polling", "csv_folder", key];
    let folder_at = ["source", "polling", "csv_folder"];
    match (&folder.key, &folder.time, &folder.value) {
        (Some(key), None, None) => {
            if key.is_empty() {
                wrong(&at("key"), "the key has no column", "name at least one, such as `[id]`");
            }
            if folder.replicate.is_some() {
                wrong(
                    &at("replicate"),
                    "records have no replicates",
                    "remove it, or write `time` and `value` for readings",
                );
            }
        }
        (None, Some(_), Some(_)) => {}
        (Some(_), ..) => {
            wrong(&at("key"), "records have a `key`, readings a `time` and a `value`", "keep one of the two")
        }
        (None, ..) => {
            let remedy = "write `key: [id]` for records, or `time: at` and `value: reading` for readings";
            wrong(&folder_at, "nothing says what a line is", remedy);
        }
    }
    if !folder.delimiter.is_ascii() || matches!(folder.delimiter, '"' | '\n' | '\r') {
        wrong(&at("delimiter"), "this can't stand between fields", "use one ASCII character, such as `;`");
    }
}

fn check_tables(section: &SqlTableSection, wrong: &mut impl FnMut(&[&str], &str, &str)) {
    let section_at = ["source", "polling", "sql_table"];
    if section.tables.is_empty() {
        let remedy = "write one such as `products: { cursor: updated_at }`";
        wrong(&[&section_at[..], &["tables"]].concat(), "there is no table", remedy);
    }
    for (key, number) in [("page_rows", section.page_rows), ("rows_max", section.rows_max)] {
        if number == 0 {
            wrong(&[&section_at[..], &[key]].concat(), "nothing could be read", "write at least 1");
        }
    }
    #[cfg(feature = "polling")]
    if let Err(error) = crate::polling::backends::SqlTable::new(section.settings()) {
        wrong(&[&section_at[..], &["url"]].concat(), &error.to_string(), "");
    }
    for (name, table) in &section.tables {
        let table_at = [&section_at[..], &["tables", name]].concat();
        check_table(table, &table_at, wrong);
    }
}

fn check_table(table: &TableSection, table_at: &[&str], wrong: &mut impl FnMut(&[&str], &str, &str)) {
    match (&table.cursor, table.reconciled) {
        (Some(_), true) => {
            let message = "a table that is read whole needs no cursor";
            wrong(&[table_at, &["reconciled"]].concat(), message, "keep one of the two");
        }
        (None, false) => {
            let remedy = "write `cursor: updated_at`, or `reconciled: true` to read it whole each time";
            wrong(table_at, "nothing says how its changes are found", remedy);
        }
        _ => {}
    }
    let of_a_cursor = [
        ("unit", table.unit.is_some()),
        ("settle", table.settle.is_some()),
        ("look_back", table.look_back.is_some()),
        ("delete_log", table.delete_log.is_some()),
        ("reconcile_keys", table.reconcile_keys.is_some()),
    ];
    if table.cursor.is_none() {
        for (key, _) in of_a_cursor.into_iter().filter(|(_, there)| *there) {
            wrong(&[table_at, &[key]].concat(), "this is for a table with a cursor", "name the cursor, or remove it");
        }
    }
    let a_key = "every row of a delete log names one key";
    if let Some(log) = &table.delete_log
        && !log.key.is_empty()
        && !table.key.is_empty()
        && log.key.len() != table.key.len()
    {
        wrong(&[table_at, &["delete_log", "key"]].concat(), a_key, "name as many columns as the table's key has");
    }
}

fn check_api(api: &HttpJsonSection, wrong: &mut impl FnMut(&[&str], &str, &str)) {
    let api_at = ["source", "polling", "http_json"];
    if api.streams.is_empty() {
        let remedy = "write one such as `products: { key: [id] }`";
        wrong(&[&api_at[..], &["streams"]].concat(), "there is no stream", remedy);
    }
    if api.token.is_some() && api.token_file.is_some() {
        wrong(&[&api_at[..], &["token_file"]].concat(), "`token` is there as well", "keep one of the two");
    }
    for (name, stream) in &api.streams {
        let stream_at = [&api_at[..], &["streams", name]].concat();
        if stream.key.is_empty() {
            wrong(&[&stream_at[..], &["key"]].concat(), "the key has no member", "name at least one, such as `[id]`");
        }
        if stream.reconciled && stream.since.is_some() {
            let message = "a list that is read whole is not asked for what is new";
            wrong(&[&stream_at[..], &["since"]].concat(), message, "keep one of the two");
        }
    }
    #[cfg(feature = "http_json")]
    if let Err(error) = crate::polling::backends::HttpJson::new(api.settings()) {
        wrong(&api_at, &error.to_string(), "");
    }
}
