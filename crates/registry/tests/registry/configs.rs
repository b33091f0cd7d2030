//! Configurations, everywhere alike.

use serde_json::json;
use stile_registry::{ConfigName, RegistryError};
use testkit::eventually;

use crate::common::{Stage, everywhere};

everywhere!(configurations_are_written_by_compare_and_set,);

async fn configurations_are_written_by_compare_and_set(mut stage: Stage) {
    let (one, other) = (stage.instance().await, stage.instance().await);
    let name = ConfigName::new("phase3").unwrap();
    assert_eq!(one.config(&name).await.unwrap(), None);
    let mut watch = other.watch_config(&name).await.unwrap();
    assert_eq!(watch.current(), None);
    let first = one.set_config(&name, 0, &json!({"pools": 3})).await.unwrap();
    let seen = watch.changed().await.unwrap();
    assert_eq!(*seen, *first);
    for expected in [0, first.version + 1] {
        let conflict = other.set_config(&name, expected, &json!(1)).await.unwrap_err();
        assert_eq!(
            conflict,
            RegistryError::ConfigConflict { name: name.clone(), version: first.version }
        );
    }
    let second = other.set_config(&name, first.version, &json!({"pools": 4})).await.unwrap();
    assert!(second.version > first.version);
    assert_eq!(watch.changed().await.unwrap().value, json!({"pools": 4}));
    eventually("the other to see it", async || {
        let config = one.config(&name).await.unwrap()?;
        (config.version == second.version).then_some(())
    })
    .await;
}
