//! Ready-made backends.

mod csv_folder;

pub use csv_folder::{CsvFolder, CsvFolderSettings, CsvRows};
