//! Ready-made backends.

mod csv_folder;
#[cfg(feature = "http_json")]
mod http_json;
mod sql_table;

pub use csv_folder::{CsvFolder, CsvFolderSettings, CsvRows};
#[cfg(feature = "http_json")]
pub use http_json::{HttpJson, HttpJsonSettings, HttpStream, Pages, Since, Token};
pub use sql_table::{
    CursorSettings, CursorUnit, DeleteLog, LookBack, SqlTable, SqlTableSettings, TableChanges, TableSettings,
};
