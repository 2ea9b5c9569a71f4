"""Every number of both papers and every bound of ours, named with its unit, with its origin."""

from __future__ import annotations

from typing import Final

# --- QGMem (section and appendix in brackets)
WINDOW_MESSAGES: Final = 6  # messages per construction window [A1]
WINDOW_OVERLAP: Final = 2  # messages shared with the window before [A1]
SEM_THRESHOLD: Final = 0.60  # least cosine of an attribute match [A2]
RRF_KAPPA: Final = 60  # κ of reciprocal rank fusion [A2]
CHANNEL_DEPTH: Final = 100  # n, candidates kept per channel [A2]
TOP_K: Final = 10  # k, evidence returned [A2]
RELATION_THRESHOLD: Final = 0.80  # τ_r, least S_rel of two units of one trace [A2]
RELATION_NEIGHBOURS: Final = 20  # nearest facts that are looked at for traces [III-D2]
MIN_TRACE_UNITS: Final = 2  # least members of a trace [A2]
SAME_SLOT_THRESHOLD: Final = 0.50  # least s_f where holder and slot are the same words (ours, measured)
TRACED_ON_ADD_UNITS: Final = (
    2_000  # units of a file up to which `add` keeps traces up to date (ours: why/traces.md)
)
TRACE_BATCH_UNITS: Final = 256  # units per transaction when traces are brought up to date (ours)
TRACE_STATES_TOLD: Final = 64  # newest members that a trace's texts are made of (ours)
TIME_FALLBACK: Final = 0.5  # weight of the utterance day for a unit without fact time (ours)

TRAJECTORY_SUPPORT: Final = 0.4  # least share of the words of a trajectory that its members say (ours)
TRAJECTORY_TOKENS: Final = 512  # longest trajectory of a model (ours)
LEAST_SUPPORT: Final = 0.6  # least share of a unit's words of content that its messages say (ours)
MAX_WINDOW_UNITS: Final = 16  # units a model may make of one window (ours)
REPLY_TOKENS: Final = 2_048  # longest reply of a model in construction, a third of its context at most (ours)
REPLY_TRIES: Final = 2  # the first question, and one again with the parse error (ours)
ASK_AGAIN_TOKENS: Final = 384  # room for a reply that could not be read, and for the question again (ours)
SHOWN_REPLY_CHARS: Final = 500  # of such a reply that the model is shown (ours)
LEAST_SHOWN_CHARS: Final = 64  # to which the messages of a window are shortened before it is given up (ours)
MAX_FACT_CHARS: Final = 300  # longest fact_text asked of a model (ours)
PREDICATE_WORDS: Final = 4  # of a predicate that need not be said; of a longer one some have to be (ours)
MAX_PART_CHARS: Final = 120  # longest subject, predicate or object asked of a model (ours)
MAX_TRAJECTORY_CHARS: Final = 900  # longest trajectory asked of a model (ours)
MAX_LABEL_CHARS: Final = 80  # longest entity or location a model may give (ours)
MAX_UNIT_LABELS: Final = 8  # entities, and locations, that a model may give one unit (ours)
MAX_DETAIL_CHARS: Final = 400  # of what a check refused, kept in the file (ours)
BUILD_AHEAD: Final = 2  # windows waiting to be written, per parallel call of the backbone (ours)

CONTEXT_WORDS: Final = 40  # words of a neighbour that enter the lexical neighbourhood (measured)
# BM25 weights of a message's fields: a question looks for what was stated, a search for words anywhere.
FIELD_WEIGHTS: Final = {"own": 1.0, "question": 0.25, "prompt": 1.0, "context": 0.4, "after": 0.4}
SEARCH_FIELD_WEIGHTS: Final = {"own": 1.0, "question": 1.0, "prompt": 0.5, "context": 0.25, "after": 0.25}
# In the fusion over both: a question asks for a meaning, a search for its words.
LIST_WEIGHTS: Final = {"message_lexical": 1.0, "message_dense": 2.5, "unit": 0.25, "hops": 3.0}
SEARCH_LIST_WEIGHTS: Final = {"message_lexical": 1.0, "message_dense": 1.0, "unit": 0.25, "hops": 1.5}
SPEAKER_BONUS: Final = 0.15  # for a message by the one speaker the question names

# --- Chains of facts (ours, measured: why/hops.md)
LEAST_HOPS: Final = 2  # facts of a chain: one alone is found by the other channels
MOST_HOPS: Final = 4  # facts of a chain
HOP_FLOOR: Final = 0.10  # cosine of a slot and a part of the question from which on it tells of it
HOP_COST: Final = 0.05  # what each fact of a chain takes from its score
LEAST_HOP_GAIN: Final = 0.10  # what the last fact must tell of the question that none before it tells
LEAST_HOP_FIT: Final = 0.11  # how well each fact must tell of some part, (cosine - floor) / (1 - floor)
LEAST_CHAIN_SHARE: Final = 0.25  # the least score of a chain as a share of the question's parts
HOP_CHAINS: Final = 1  # chains that enter the evidence
HOP_BEAM: Final = 16  # chains kept in each round
HOP_NODE_EDGES: Final = 64  # newest facts of one holder that are followed
HOP_ROUND_EDGES: Final = 1_024  # facts looked at in each round
HOP_LABEL_UNITS: Final = 1_024  # newest units of one label that are looked at
MAX_QUESTION_PARTS: Final = 12  # parts of a question that slots are compared with

# --- Working memory (ours)
MAX_PARSED_CHARS: Final = 2_000  # of a question that are parsed
MAX_QUERY_TIMES: Final = 4  # constraints of time on one question
QUERY_TOKENS: Final = 512  # longest reply of a model that parses a question
CONTEXT_TOKENS: Final = 1_024  # of the text for a prompt; the paper's working memory has 598 on average
ANSWER_TOKENS: Final = 256  # longest reply to a question [A10.7]
TEMPLATE_TOKENS: Final = 64  # room for what a chat template puts around two turns
SPARE_EVIDENCE: Final = 10  # looked up beyond k, to stand in for what is said twice
RERANK_DEPTH: Final = 30  # candidates that the reranker reads
FIRST_RANKING_WEIGHT: Final = 1.0  # of ln(rank), taken from the reranker's log-odds (ours, measured)
# Probability of an answer in memory under which an assistant should say it has none. The calibration weighs
# both classes alike, and most questions have an answer: .5 refuses a quarter of these (why/reranking.md).
ABSTAIN_BELOW: Final = 0.4
RERANK_BEFORE: Final = 1  # messages before a candidate's own that the reranker reads with it
MAX_NEIGHBOURS: Final = 16  # messages on each side of a piece of evidence that may be asked for

# --- DeferMem (section and appendix in brackets); thresholds mean something for one encoder only (B4.3)
SEGMENT_THRESHOLD: Final = 0.60  # τ1, cosine of adjacent messages below which a segment may end (measured)
LINK_THRESHOLD: Final = 0.90  # τ2, least cosine of linked segments [4.3]
SEGMENT_RULE: Final = "valley"  # how boundaries are found (measured: why/segments.md)
SEGMENT_LINKS: Final = 64  # nearest segments that one is linked to when it is made or changed (ours)
SEGMENTS_PER_WAITING: Final = 256  # of a file, for each closed one that may wait for its links (ours)
SEGMENTS_LOOKED_UP: Final = 4  # up to which each is looked up by itself; more are compared in one pass (ours)
SEGMENT_BLOCK: Final = 8_192  # segments read at once in such a pass (ours)
SEGMENTS_COMPARED: Final = 256  # segments compared with a block at once: 16 MiB of cosines (ours)
SEGMENT_BATCH_SESSIONS: Final = 64  # sessions per transaction when segments are brought up to date (ours)
SEGMENT_MOST_MESSAGES: Final = 256  # of one segment: no topic is longer, and an append reads no more (ours)
CALIBRATION_MESSAGES: Final = 4_096  # of a file that thresholds are found with: 4,096² cosines (ours)
CALIBRATION_QUESTIONS: Final = 128  # messages that stand for questions then (ours)
CALIBRATION_K: Final = 100  # messages that each of them finds (ours)
HISTORY_K: Final = 200  # messages that a question is answered from, before their segments (measured)
HISTORY_TOKENS: Final = 10_000  # of the candidate set, estimated; 6.5k of the encoder's own [4.3]
HISTORY_MESSAGES: Final = 4_096  # most messages of a candidate set (ours)
ATTENTION_TEXT_TOKENS: Final = 128  # of a message that are read for its attention to the one before (ours)
COMPRESSION_RATE: Final = 0.8  # share of a text's words that LLMLingua-2 keeps (LightMem's)
CHUNK_TOKENS: Final = 512  # most that a compressor reads at once, special tokens included (LLMLingua-2)

# --- Distillation (DeferMem gives no numbers; ours)
DISTILL_DEPTH: Final = (
    30  # best-placed messages that the reranker reads; of 50 it chooses no others (measured)
)
USEFUL_RANK_WEIGHT: Final = 1.0  # of ln(rank), taken from the reranker's log-odds (measured)
LEAST_USEFUL: Final = -5.0  # relevance, log-odds less rank, from which on a message is useful (measured)
USEFUL_WITHIN: Final = 4.0  # by how much a useful message is less relevant than the best at most (measured)
MOST_USEFUL: Final = 10  # useful messages (measured)
MAX_STATEMENT_CHARS: Final = 600  # of what rules tell of one message
MAX_INFO_CHARS: Final = 300  # of what a model may tell of one message
DISTILL_TOKENS: Final = 4_096  # longest reply of a distiller, a third of its context at most
# Room in such a reply for each message that may be chosen, so that one that repeats itself still ends.
DISTILLED_TOKENS: Final = MAX_INFO_CHARS // 2 + 40

# --- Rewards of a distiller (DeferMem gives no numbers; ours)
LEAST_ANSWER_F1: Final = 0.7  # of the words of an answer and of its reference, to be correct without a model
LEAST_ANSWER_SHARE: Final = 0.6  # of a reference's words in evidence that answers, without a model (measured)
LEAST_INFORMATION_SHARE: Final = 0.5  # of them in evidence that is not to blame for a wrong answer
LEAST_OWN_SHARE: Final = 0.5  # of a piece of evidence that its message says itself where it points back
LEAST_STATED_WORDS: Final = 3  # of content, for a message to be more than a reply
JUDGE_TRIES: Final = 3  # of a judgement: what cannot be read twice more is asked for again, then failed
JUDGE_CONTEXT_MESSAGES: Final = 8  # before a message that a judge of its evidence is shown
JUDGE_ANSWER_TOKENS: Final = 192  # longest judgement of an answer
JUDGE_ENTRY_TOKENS: Final = 160  # of a judgement of entries, for each of them
JUDGE_REASON_CHARS: Final = 200  # longest reason

# --- The file (ours)
BUSY_TIMEOUT_MS: Final = 10_000  # how long a writer waits for another
CACHE_KIB: Final = 64 * 1024  # page cache of the writer
READER_CACHE_KIB: Final = 32 * 1024  # page cache of one reader
MAPPED_FROM_BYTES: Final = 128 * 2**20  # size of a file from which on readers map it (measured)
MAPPED_BYTES: Final = 2**40  # most of it that is mapped; SQLite has a bound of its own, of 2 GiB
MAX_CONTENT_CHARS: Final = 1_000_000  # longest content of one message
MAX_NAME_CHARS: Final = 1_000  # longest speaker, id, session, role or scope part
MAX_QUESTION_CHARS: Final = 100_000  # longest question
MAX_K: Final = 4_096  # most evidence for one question (sqlite-vec's bound of a KNN)
MAX_QUESTION_TERMS: Final = 64  # distinct terms of a question that are looked up
MAX_LABEL_HITS: Final = 512  # nearest labels looked at per constraint
ADD_BATCH_MESSAGES: Final = 512  # messages per write transaction of a long add
REEMBED_BATCH_ROWS: Final = 256  # messages, units or labels per write transaction of a re-embedding

# --- Rerankers (ours)
PAIR_TOKENS: Final = 512  # longest question and document of a cross-encoder whose card does not say
YES_NO_TOKENS: Final = 2_048  # the same of a Qwen3-Reranker, its prompt included; its authors read 8,192

# --- Language models (ours)
LLAMA_CONTEXT_TOKENS: Final = 8_192  # context of a local model that was trained on as much or more
LLAMA_BATCH_TOKENS: Final = 512  # most tokens of one evaluation (llama.cpp's own n_ubatch)
API_TIMEOUT_S: Final = 120.0  # longest silence of an endpoint: it writes nothing until all is generated
API_REQUEST_S: Final = 600.0  # longest time of one request, from its start to the last byte of the reply
API_REPLY_BYTES: Final = 16 * 1024 * 1024  # longest reply of an endpoint
TEMPLATE_CHARS: Final = 65_536  # longest chat template
TEMPLATE_OUTPUT_CHARS: Final = 4 * 1024 * 1024  # longest text a chat template may make
API_RETRIES: Final = 4  # repeats of a request after the first
API_PARALLEL: Final = 8  # requests of one backbone at the same time
API_CONTEXT_TOKENS: Final = 32_768  # prompt and completion of a model whose context the caller does not give
RETRY_FIRST_WAIT_S: Final = 0.5  # before the first repeat, doubled for each further one (the client's own)
RETRY_LONGEST_WAIT_S: Final = 30.0  # bound of the doubling
RETRY_AFTER_BOUND_S: Final = 120.0  # a longer wait than this is the caller's to decide (the client's own)


def shaping() -> dict[str, float | int | str]:
    """The settings that shape what a file holds; recorded in the file."""
    return {
        "window_messages": WINDOW_MESSAGES,
        "window_overlap": WINDOW_OVERLAP,
        "context_words": CONTEXT_WORDS,
        "relation_threshold": RELATION_THRESHOLD,
        "relation_neighbours": RELATION_NEIGHBOURS,
        "same_slot_threshold": SAME_SLOT_THRESHOLD,
        "segment_threshold": SEGMENT_THRESHOLD,
        "link_threshold": LINK_THRESHOLD,
        "segment_rule": SEGMENT_RULE,
    }
