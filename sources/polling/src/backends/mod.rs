//! Ready-made backends.

mod csv_folder;
mod sql_table;

pub use csv_folder::{CsvFolder, CsvFolderSettings, CsvRows};
pub use sql_table::{
    CursorSettings, CursorUnit, DeleteLog, LookBack, SqlTable, SqlTableSettings, TableChanges, TableSettings,
};
