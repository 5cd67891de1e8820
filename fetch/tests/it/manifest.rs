//! The manifest: the one that is shipped, and what is refused in others.

use fetch::{Kind, Manifest, Pin, Place};
use std::path::Path;

fn shipped() -> Manifest {
    Manifest::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../artifact/sources.toml")).unwrap()
}

#[test]
fn the_shipped_one_pins_the_published_files() {
    let manifest = shipped();
    let maf2 = manifest.get("maf2").unwrap();
    // Where `reproduce` looks for it.
    assert_eq!(
        (maf2.folder.as_str(), maf2.file.as_str()),
        ("traces/full", "AzureFunctionsInvocationTraceForTwoWeeksJan2021.txt")
    );
    let pin = |size, sha256: &str| Pin { size, sha256: sha256.to_owned() };
    let text = pin(305_388_316, "d56368ef194baa8d418304bd2f87cca67668ced0d117bd89ad4ef3cf836457d2");
    assert_eq!(maf2.kind, Kind::File(text));
    let archive = pin(18_444_269, "8bb5d1c82e89e467062b6582996232df24edfebadbaf3287a8c985ca178ba92d");
    assert_eq!(manifest.get("maf2-archive").unwrap().kind, Kind::Rar5(archive));
    assert!(
        matches!(&maf2.places[0], Place::Url(url) if url.ends_with(".txt")),
        "the plain text comes first"
    );
    assert!(maf2.places.contains(&Place::Archive("maf2-archive".to_owned())));
    let Kind::Commit(commit) = &manifest.get("tally-bench").unwrap().kind else {
        panic!("not pinned by a commit")
    };
    assert!(commit.starts_with("aaa359a"));
    let on_request: Vec<&str> =
        manifest.sources.iter().filter(|s| s.on_request).map(|s| s.id.as_str()).collect();
    assert_eq!(on_request, ["maf2-archive", "tally-bench"]);
}

#[test]
fn the_shipped_one_names_only_safe_addresses_and_says_whose_data_they_are() {
    for source in shipped().sources {
        assert!(!source.licence.is_empty() && !source.attribution.is_empty(), "{}", source.id);
        for place in &source.places {
            if let Place::Url(url) | Place::Git(url) = place {
                assert!(url.starts_with("https://"), "{url}");
            }
        }
    }
}

/// A manifest of one source with this line changed.
fn changed(line: &str, to: &str) -> String {
    let text = format!(
        "[[source]]\nid = \"a\"\nwhat = \"w\"\nfolder = \"f\"\nfile = \"a.txt\"\nsize = 3\nsha256 = \"{}\"\nlicence = \"l\"\n\
         attribution = \"x\"\n[[source.place]]\nurl = \"https://example.org/a\"\n",
        "0".repeat(64)
    );
    assert!(Manifest::parse(&text).is_ok());
    let found = text.lines().find(|l| l.starts_with(line)).unwrap();
    match Manifest::parse(&text.replace(found, to)) {
        Ok(_) => panic!("{to} was taken"),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn what_cannot_be_verified_or_would_leave_its_folder_is_refused() {
    let unpinned = "what cannot be verified is not fetched";
    for (line, to, expected) in [
        ("sha256", "", unpinned),
        ("sha256", "sha256 = \"\"", "must be 64 lower-case hex digits"),
        ("size", "", unpinned),
        ("size", "size = 0", "`size` is 0"),
        ("size", "size = 3\ncommit = \"0\"", unpinned),
        ("file", "file = \"../a.txt\"", "plain file name"),
        ("file", "file = \"/etc/a\"", "plain file name"),
        ("file", "file = \"b/a\"", "plain file name"),
        ("file", "file = \"..\"", "plain file name"),
        ("folder", "folder = \"../f\"", "below the repository"),
        ("folder", "folder = \"/f\"", "below the repository"),
        ("id", "id = \"a b\"", "letters, digits"),
        ("url", "url = \"ftp://example.org/a\"", "is no address"),
        ("url", "url = \"file:///etc/passwd\"", "--from"),
        ("url", "git = \"https://example.org/a\"", "for sources with a `commit`"),
        ("url", "archive = \"b\"", "there is no source \"b\"; there are a"),
        ("url", "archive = \"a\"", "has no `unpack`"),
        ("url", "url = \"https://example.org/a\"\ngit = \"https://example.org/a\"", "one of `url`"),
        ("what", "what = \"w\"\nunpack = \"zip\"", "can be \"rar5\""),
        ("what", "wat = \"w\"", "unknown field `wat`"),
    ] {
        let error = changed(line, to);
        assert!(error.contains(expected), "{to}: {error}");
    }
}

#[test]
fn doubles_and_huge_files_are_refused() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../artifact/sources.toml"))
            .unwrap();
    let twice = format!("{text}\n{}", &text[text.find("[[source]]").unwrap()..]);
    assert!(format!("{:#}", Manifest::parse(&twice).unwrap_err()).contains("there twice"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sources.toml");
    std::fs::write(&path, "#".repeat(2 << 20)).unwrap();
    assert!(format!("{:#}", Manifest::read(&path).unwrap_err()).contains("is larger than"));
}
