//! A source without a log, from the configuration alone: a folder of CSV files, an embedded store, no server.

#![allow(clippy::unwrap_used)] // A test that meets the unexpected may panic.

use millstream_tests::{Fold, Folder, Host, Inbox, Random, documents_path, free_port, host_bin};

fn spawn(folder: &Folder) -> Host {
    Host::spawn(&folder.path().join("millstream.yaml"), &folder.path().join("host.log"), free_port())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_files_that_is_corrected_while_the_host_is_killed_ends_equal() {
    let folder = Folder::new();
    let inbox = folder.path().join("inbox");
    std::fs::create_dir(&inbox).unwrap();
    std::fs::write(folder.path().join("millstream.yaml"), Inbox::config("50ms", "")).unwrap();
    let mut random = Random::new(4);
    let mut shop = Inbox::of(300);
    shop.write(&inbox, false);
    let mut host = spawn(&folder);
    shop.until_written(folder.path(), "the filling").await;
    for round in 0..24 {
        shop.change(&mut random);
        shop.write(&inbox, round % 2 == 0);
        if round % 3 == 0 {
            // Somewhere between reading the files and the last ack.
            tokio::time::sleep(std::time::Duration::from_millis(random.below(150))).await;
            host.kill();
            host = spawn(&folder);
        }
        if round % 4 == 3 {
            shop.until_written(folder.path(), &format!("round {round}")).await;
        }
    }
    shop.until_written(folder.path(), "the last change").await;
    assert!(host.stop().await.success());
    // What was acked is told no more.
    let before = Fold::read(&documents_path(folder.path())).lines();
    let config = folder.path().join("millstream.yaml");
    let mut command = std::process::Command::new(host_bin());
    command.args(["run", "--until-idle", "--config"]).arg(&config);
    let idle = Host::spawn_command(command, &folder.path().join("host.log"), 0);
    assert!(idle.ended().await.success());
    assert_eq!(Fold::read(&documents_path(folder.path())).lines(), before);
}

/// What the program says to arguments, and its exit code.
async fn ask(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String) {
    let (code, out, err) = millstream_tests::ask(&folder.path().join("millstream.yaml"), arguments).await;
    (code, out + &err)
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_to_a_polled_source_are_given_through_the_host() {
    let folder = Folder::new();
    let inbox = folder.path().join("inbox");
    std::fs::create_dir(&inbox).unwrap();
    let (http, control) = (free_port(), free_port());
    let served = format!(
        "http: {{ listen: \"127.0.0.1:{http}\" }}\ncontrol: {{ listen: \"127.0.0.1:{control}\", token_file: token }}\n"
    );
    std::fs::write(folder.path().join("millstream.yaml"), Inbox::config("50ms", &served)).unwrap();
    std::fs::write(folder.path().join("token"), "a long random word\n").unwrap();
    let mut shop = Inbox::of(20);
    shop.write(&inbox, false);
    let host = spawn(&folder);
    shop.until_written(folder.path(), "the filling").await;
    let (code, said) = ask(&folder, &["source"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("stream products: reconciled") && said.contains("cycle "), "{said}");
    let (code, said) = ask(&folder, &["source", "pause", "--id", "one"]).await;
    assert!(code == Some(0) && said.contains("pause is done"), "{said}");
    assert!(ask(&folder, &["source"]).await.1.starts_with("paused"));
    // Half of them gone is more than the brake lets pass.
    shop.products.retain(|id, _| *id <= 10);
    shop.write(&inbox, false);
    let (code, said) = ask(&folder, &["source", "trigger"]).await;
    assert_eq!(code, Some(0), "{said}");
    let (_, said) = ask(&folder, &["source"]).await;
    assert!(said.contains("stream products: reconciled, the brake is on"), "{said}");
    let release = ["source", "release_brake", "{\"streams\": [\"products\"]}"];
    assert_eq!(ask(&folder, &release).await.0, Some(0));
    assert_eq!(ask(&folder, &["source", "trigger"]).await.0, Some(0));
    shop.until_written(folder.path(), "the brake was released").await;
    // Given again, it is not done again: the source stays as it is.
    assert_eq!(ask(&folder, &["source", "resume"]).await.0, Some(0));
    assert_eq!(ask(&folder, &["source", "pause", "--id", "one"]).await.0, Some(0));
    assert!(ask(&folder, &["source"]).await.1.starts_with("at work"));
    for (arguments, code, why) in [
        (&["source", "resync"][..], 1, "it needs {\"streams\""),
        (&["source", "sing/along"], 1, "unknown command"),
        (&["source", "resync", "{"], 2, "is no JSON"),
    ] {
        let (ended, said) = ask(&folder, arguments).await;
        assert!(ended == Some(code) && said.contains(why), "{arguments:?}: {ended:?} {said}");
    }
    assert!(host.stop().await.success());
}
