//! The same over a source without a log: a folder of CSV files and an embedded store.

use std::path::Path;
use std::time::Duration;

use millstream_tests::wait::until;
use millstream_tests::{Folder, Host, Inbox, Random, documents_path, free_port, host_bin};
use tokio::time::{Instant, sleep};

use crate::tail::{Tail, short};

/// Writes files, runs millstream over them, corrects and removes lines.
pub async fn show(end: Option<Instant>) {
    let folder = Folder::new();
    let (inbox, config) = (folder.path().join("inbox"), folder.path().join("millstream.yaml"));
    let (http, control) = (free_port(), free_port());
    let served = format!(
        "http: {{ listen: \"127.0.0.1:{http}\" }}\ncontrol: {{ listen: \"127.0.0.1:{control}\", token_file: token }}\n"
    );
    println!("Filling a folder: products.csv and reviews.csv ...");
    std::fs::create_dir(&inbox).expect("our own folder can be written");
    std::fs::write(&config, Inbox::config("200ms", &served)).expect("our own folder can be written");
    std::fs::write(folder.path().join("token"), "demo\n").expect("our own folder can be written");
    let mut files = Inbox::of(300);
    files.write(&inbox, false);
    println!("Running millstream over it, with this configuration ({}):\n", config.display());
    println!("{}", Inbox::config("200ms", &served));
    let mut host = Host::spawn(&config, &folder.path().join("host.log"), http);
    files.until_written(folder.path(), "the last change").await;
    println!("Every product is a document, its reviews inside.");
    let mut tail = Tail::at_end(documents_path(folder.path()));

    files.products.insert(8, ("a corrected name".to_owned(), "9.99".to_owned()));
    rewritten("a corrected line", &files, folder.path(), &mut tail).await;
    files.reviews.insert(5, (9, "5".to_owned()));
    rewritten("a review moved to another product", &files, folder.path(), &mut tail).await;
    files.products.remove(&11);
    rewritten("a line removed", &files, folder.path(), &mut tail).await;

    println!("\n--- half of the products gone at once: more than the brake lets pass");
    files.products.retain(|id, _| *id <= 150);
    files.write(&inbox, false);
    until("the brake", || async { ask(&config, &["source"]).await.contains("the brake is on").then_some(()) }).await;
    for arguments in [&["source"][..], &["source", "release_brake", "{\"streams\": [\"products\"]}"]] {
        println!("    $ millstream {}", arguments.join(" "));
        ask(&config, arguments).await.lines().take(3).for_each(|line| println!("    {}", short(line, 150)));
    }
    files.until_written(folder.path(), "the last change").await;
    println!("\nEvery document equals what the files say.");
    println!("\nNow try, in another terminal:");
    println!("  $EDITOR {}      and save it", inbox.join("products.csv").display());
    println!("  tail -f {}", documents_path(folder.path()).display());
    println!("  curl http://127.0.0.1:{http}/metrics");
    println!("  {} source --config {}\n", host_bin().display(), config.display());
    match end {
        Some(_) => println!("Meanwhile lines change at random:"),
        None => println!("Until Ctrl-C."),
    }
    let (mut random, mut files) = (Random::new(1), files);
    // Who edits files by hand is not written over.
    while end.is_none_or(|end| Instant::now() < end) {
        assert!(!host.has_ended(), "millstream ended by itself; its log:\n{}", host.log());
        if end.is_some() {
            files.change(&mut random);
            files.write(&inbox, false);
        }
        sleep(Duration::from_millis(500)).await;
        tail.lines().last().inspect(|line| println!("  {}", short(line, 130)));
    }
    files.until_written(folder.path(), "the last change").await;
    println!("\nEvery document equals what the files say. Cleaning up.");
    host.stop().await;
}

async fn rewritten(what: &str, files: &Inbox, folder: &Path, tail: &mut Tail) {
    println!("\n--- {what}");
    files.write(&folder.join("inbox"), false);
    let mut lines = tail.wait().await;
    files.until_written(folder, what).await;
    lines.extend(tail.lines());
    lines.iter().take(3).for_each(|line| println!("    {}", short(line, 150)));
}

/// What the program says.
async fn ask(config: &Path, arguments: &[&str]) -> String {
    let (_, out, err) = millstream_tests::ask(config, arguments).await;
    out + &err
}
