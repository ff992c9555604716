//! The README's Rust example.

use firndb::{Config, Database, Parameters};

fn main() -> firndb::Result<()> {
    let session = Database::open(Config::default())?.connect()?;
    session.execute(
        "CREATE TABLE t AS SELECT range AS i FROM range(10)",
        &Parameters::default(),
    )?;
    let outcome = session.execute("SELECT sum(i) FROM t", &Parameters::default())?;
    for batch in outcome.rows.into_iter().flatten() {
        println!("{:?}", batch?);
    }
    Ok(())
}
