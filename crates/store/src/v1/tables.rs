//! Which tables there are, and what their columns need.

use tokio_postgres::{Client, types::Type};

use super::V1Error;

/// A column of V1's.
#[derive(Debug, Clone)]
struct Column {
    name: String,
    kind: String,
    /// Whether a new row must be told.
    required: bool,
}

/// V1's two tables, by whatever names.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub(super) schema: String,
    pub(super) state_name: String,
    pub(super) allocation_name: String,
    state: Vec<Column>,
    allocation: Vec<Column>,
}

impl Tables {
    pub(super) async fn find(client: &Client) -> Result<Self, V1Error> {
        let found = client.query_typed(include_str!("sql/tables.sql"), &[]).await?;
        let row = match &found[..] {
            [] => return Err(V1Error::NotV1),
            [row] => row,
            _ => return Err(V1Error::Both),
        };
        let (schema, state_name): (String, String) =
            (row.try_get("schema")?, row.try_get("state_table")?);
        let allocation_name: String = row.try_get("allocation_table")?;
        let state = columns(client, &schema, &state_name).await?;
        let allocation = columns(client, &schema, &allocation_name).await?;
        let tables = Self { schema, state_name, allocation_name, state, allocation };
        let signer = tables.signer();
        for (table, columns, column) in [
            (&tables.state_name, &tables.state, signer),
            (&tables.state_name, &tables.state, "next_local_nonce"),
            (&tables.allocation_name, &tables.allocation, signer),
            (&tables.allocation_name, &tables.allocation, "nonce"),
            (&tables.allocation_name, &tables.allocation, "status"),
            (&tables.allocation_name, &tables.allocation, "tx_hash"),
        ] {
            if !columns.iter().any(|known| known.name == column) {
                return Err(V1Error::NoColumn { table: table.clone(), column });
            }
        }
        Ok(tables)
    }

    /// The column that names a signer.
    fn signer(&self) -> &'static str {
        if self.is_submitter() { "submitter" } else { "signer" }
    }

    fn is_submitter(&self) -> bool {
        self.state_name.starts_with("submitter")
    }

    /// What V1 calls a nonce that was sent, and one that was given back.
    pub(super) fn words(&self) -> (&'static str, &'static str) {
        if self.is_submitter() { ("USED", "RECYCLABLE") } else { ("CONSUMED", "RELEASED") }
    }

    /// The type of a column of the allocations.
    pub(super) fn type_of(&self, name: &str) -> &str {
        self.allocation
            .iter()
            .find(|column| column.name == name)
            .map_or("text", |column| &column.kind)
    }

    /// A statement with the names put in.
    pub(super) fn sql(&self, template: &str) -> String {
        let schema = quoted(&self.schema);
        template
            .replace("{state}", &format!("{schema}.{}", quoted(&self.state_name)))
            .replace("{allocation}", &format!("{schema}.{}", quoted(&self.allocation_name)))
            .replace("{schema}", &schema)
            .replace("{signer}", self.signer())
            .replace("{hash_type}", self.type_of("tx_hash"))
            .replace("{status_type}", self.type_of("status"))
    }

    /// A statement that changes rows of a table: with the time of the change, where there is a column
    /// for it.
    pub(super) fn touching(&self, template: &str) -> String {
        let is_state = template.contains("{state}");
        let columns = if is_state { &self.state } else { &self.allocation };
        let touched = columns.iter().any(|column| column.name == "updated_at");
        let touched = if touched { ", updated_at = now()" } else { "" };
        self.sql(&template.replace("{touched}", touched))
    }

    /// A statement that makes rows of a table: with whatever else its columns need.
    pub(super) fn filling(&self, template: &str) -> Result<String, V1Error> {
        let is_state = template.contains("INTO {state}");
        let (table, columns) = if is_state {
            (&self.state_name, &self.state)
        } else {
            (&self.allocation_name, &self.allocation)
        };
        let given = [self.signer(), "next_local_nonce", "nonce", "status", "tx_hash"];
        let (mut names, mut values) = (String::new(), String::new());
        for column in columns.iter().filter(|column| !given.contains(&column.name.as_str())) {
            let value = match (column.name.as_str(), column.kind.as_str()) {
                ("updated_at" | "created_at", _) => "now()",
                _ if !column.required => continue,
                ("locked_until", _) => "now()",
                ("lock_owner", _) => "'stile'",
                ("last_chain_nonce", _) if is_state => "$2",
                ("last_chain_nonce" | "fencing_token", _) => "0",
                ("id", "uuid") => "gen_random_uuid()",
                ("id", kind) if kind.starts_with("character") || kind == "text" => {
                    "gen_random_uuid()::text"
                }
                ("id", "bigint" | "integer") => {
                    "(SELECT coalesce(max(id), 0) FROM {allocation}) + row_number() OVER (ORDER BY w.nonce)"
                }
                _ => {
                    let (table, column) = (table.clone(), column.name.clone());
                    return Err(V1Error::Unfillable { table, column });
                }
            };
            names.push_str(&format!(", {}", quoted(&column.name)));
            values.push_str(&format!(", {value}"));
        }
        let filled = template.replace("{columns}", &names).replace("{values}", &values);
        Ok(self.sql(&filled))
    }
}

async fn columns(client: &Client, schema: &str, table: &str) -> Result<Vec<Column>, V1Error> {
    let found = client
        .query_typed(
            include_str!("sql/columns.sql"),
            &[(&schema, Type::TEXT), (&table, Type::TEXT)],
        )
        .await?;
    let read = |row: &tokio_postgres::Row| {
        let (required, filled): (bool, bool) = (row.try_get("required")?, row.try_get("filled")?);
        let (name, kind) = (row.try_get("name")?, row.try_get("type")?);
        Ok(Column { name, kind, required: required && !filled })
    };
    found.iter().map(read).collect()
}

/// A name as SQL takes it, whatever is in it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
