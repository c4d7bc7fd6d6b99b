//! What a stream makes of its items.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::v1::output_config::Transport;
use crate::v1::processor_config::Source;
use crate::v1::{
    CheckpointConfig, DataType, InlineTransport, OutputConfig, PresetConfig, ProcessorConfig, ResultOrder,
};

/// What a stream makes of its items. Features travel inline, in messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The processor.
    pub processor: ProcessorConfig,
    /// Element type of the features.
    pub data_type: DataType,
    /// Order in which items end.
    pub order: ResultOrder,
    /// The GPU, for `DeferredCuda` only: other paths refuse it. `None`: the server's choice.
    pub device_uuid: Option<String>,
    /// Has every item's features made anew.
    pub bypass_cache: bool,
    /// How many bytes of features come in a message. `None`: the server's setting.
    pub chunk_bytes: Option<u32>,
    /// Bounds the items in flight. `None`: as many as the server takes.
    pub max_unfinished_items: Option<NonZeroUsize>,
    /// How long the whole stream may take, from its opening to its end. `None`: as long as it wants.
    pub timeout: Option<Duration>,
}

impl Config {
    /// A config of any processor, such as a typed one: `v1::KimiConfig { .. }.into()`. Items end as they complete.
    pub fn new(processor: impl Into<ProcessorConfig>, data_type: DataType) -> Self {
        Config {
            processor: processor.into(),
            data_type,
            order: ResultOrder::AsCompleted,
            device_uuid: None,
            bypass_cache: false,
            chunk_bytes: None,
            max_unfinished_items: None,
            timeout: None,
        }
    }

    /// A config that the server has under a name, such as "kimi-k3".
    pub fn preset(name: &str, data_type: DataType) -> Self {
        Config::new(PresetConfig { name: name.to_owned(), ..PresetConfig::default() }, data_type)
    }

    /// The text of a `preprocessor_config.json`, as it ships with a checkpoint.
    pub fn checkpoint(preprocessor_config_json: &str, data_type: DataType) -> Self {
        let preprocessor_config_json = preprocessor_config_json.to_owned();
        Config::new(CheckpointConfig { preprocessor_config_json, ..CheckpointConfig::default() }, data_type)
    }

    /// The same, with items that end in the order in which they were sent.
    #[must_use]
    pub fn as_sent(self) -> Self {
        Config { order: ResultOrder::AsSent, ..self }
    }

    pub(crate) fn output(&self) -> OutputConfig {
        OutputConfig {
            data_type: self.data_type.into(),
            order: self.order.into(),
            bypass_cache: self.bypass_cache,
            group_responses: false,
            transport: Some(Transport::Inline(InlineTransport { chunk_bytes: self.chunk_bytes })),
        }
    }
}

/// Makes a `ProcessorConfig` of each of its sources.
macro_rules! sources {
    ($($message:ident => $arm:ident),* $(,)?) => {$(
        impl From<crate::v1::$message> for ProcessorConfig {
            fn from(source: crate::v1::$message) -> Self {
                ProcessorConfig { source: Some(Source::$arm(source)) }
            }
        }
    )*};
}

sources! {
    CheckpointConfig => Checkpoint,
    PresetConfig => Preset,
    KimiConfig => Kimi,
    QwenVlConfig => QwenVl,
    KimiVlConfig => KimiVl,
    GlmVlConfig => GlmVl,
    GlmNextConfig => GlmNext,
    FixedSizeConfig => FixedSize,
    InternVlConfig => InternVl,
}
