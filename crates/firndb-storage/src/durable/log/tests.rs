use std::sync::Arc;

use super::*;
use crate::durable::host::Access;
use crate::durable::simulated::Simulated;

const PATH: &str = "t.firn.wal";
const BEGIN: Place = Place { lsn: 0, chain: 0 };

fn header() -> LogHeader {
    LogHeader {
        salt: 7,
        first: BEGIN.lsn,
        root: 1,
        chain: BEGIN.chain,
    }
}

fn log_on(disk: &Simulated) -> Log {
    let host: Arc<dyn Host> = Arc::new(disk.clone());
    let file = create(&host, Path::new(PATH), &header(), &[], true).unwrap();
    Log::new(&host, Path::new(PATH), file, &header(), BEGIN, false)
}

fn records(disk: &Simulated) -> Vec<u8> {
    let file = disk.open(Path::new(PATH), Access::Read).unwrap();
    let mut found = Vec::new();
    scan(&*file, PATH, &header(), BEGIN, |record| {
        found.extend_from_slice(record);
        Ok(())
    })
    .unwrap();
    found
}

#[test]
fn notes_outlive_a_full_disk_and_nobody_waits_for_room() {
    let disk = Simulated::default();
    let log = log_on(&disk);
    disk.set_capacity(Some(disk.used()));
    for round in 0..3_u8 {
        log.note(&[b'a' + round]);
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let group = log.append(b"!").unwrap();
                log.cut();
                group
            })
            .collect();
        for group in waiting {
            assert!(matches!(log.flush(&group, true), Err(Error::DiskFull(_))));
        }
        assert!(matches!(log.sync(), Err(Error::DiskFull(_))));
    }
    disk.set_capacity(None);
    let group = log.append(b".").unwrap();
    log.flush(&group, true).unwrap();
    assert_eq!(records(&disk), b"abc.");
}
