"""English verbs: their forms, and the repairs that resolving "I" and "you" to a name makes necessary."""

from __future__ import annotations

from typing import Final, NamedTuple

from memdb.language.words import word_set

# base, past, participle
_IRREGULAR: Final = """
be was been; bear bore born; become became become; begin began begun; bend bent bent; bet bet bet;
bind bound bound; bite bit bitten; bleed bled bled; blow blew blown; break broke broken; breed bred bred;
bring brought brought; build built built; burn burnt burnt; buy bought bought; cast cast cast;
catch caught caught; choose chose chosen; cling clung clung; come came come; cost cost cost;
creep crept crept; cut cut cut; deal dealt dealt; dig dug dug; do did done; draw drew drawn;
dream dreamt dreamt; drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen; feed fed fed;
feel felt felt; fight fought fought; find found found; fit fit fit; fly flew flown;
forbid forbade forbidden; forget forgot forgotten; forgive forgave forgiven; freeze froze frozen;
get got gotten; give gave given; go went gone; grow grew grown; hang hung hung; have had had;
hear heard heard; hide hid hidden; hit hit hit; hold held held; hurt hurt hurt; keep kept kept;
know knew known; lay laid laid; lead led led; learn learnt learnt; leave left left; lend lent lent;
let let let; lie lay lain; light lit lit; lose lost lost; make made made; mean meant meant; meet met met;
overcome overcame overcome; pay paid paid; put put put; quit quit quit; read read read;
rebuild rebuilt rebuilt; ride rode ridden; ring rang rung; rise rose risen; run ran run; say said said;
see saw seen; seek sought sought; sell sold sold; send sent sent; set set set; sew sewed sewn;
shake shook shaken; shine shone shone; shoot shot shot; show showed shown; shut shut shut; sing sang sung;
sink sank sunk; sit sat sat; sleep slept slept; slide slid slid; speak spoke spoken; spend spent spent;
spin spun spun; split split split; spread spread spread; stand stood stood; steal stole stolen;
stick stuck stuck; strike struck struck; strive strove striven; swear swore sworn; sweep swept swept;
swim swam swum; swing swung swung; take took taken; teach taught taught; tear tore torn; tell told told;
think thought thought; throw threw thrown; understand understood understood; undergo underwent undergone;
upset upset upset; wake woke woken; wear wore worn; weave wove woven; win won won; write wrote written
"""

_REGULAR: Final = """
accept accomplish achieve acquire adapt add address adjust admire admit adopt advance advise affect afford
agree aim allow analyze announce answer appear apply appoint appreciate approach approve argue arrange
arrive ask assist assume attack attempt attend attract author avoid award bake base battle beat belong
benefit blame bless boil book borrow bother bounce breathe brew browse brush burst bike calculate call
calm camp cancel capture care carry celebrate challenge change charge chat check cheer chill claim clean
clear climb close coach code collect combine comment commit communicate compare compete complain complete
compose concentrate concern confirm connect consider consist construct consume contact contain continue
contribute control convert convince cook cope copy count cover crash crave crawl create cross cry
cultivate customize cycle dance date debate debug decide declare decline decorate dedicate define deliver
demand depend deploy describe deserve design desire destroy detect determine develop die direct disagree
disappear discover discuss dislike display dive divorce donate doubt download dress drop earn edit educate
elect email embrace emerge employ enable encounter encourage end engage enhance enjoy enroll ensure enter
escape establish estimate evaluate examine exchange excite exercise exist expand expect experience explain
explore express extend face facilitate fail fear feature file fill film finalize finish fish fix focus
fold follow force form found frame gain garden gather generate grab graduate greet grill grind guess guide
handle happen harvest hate head heal help hike hire hop hope host hug hunt hurry identify ignore imagine
implement import impress improve include increase indicate inform injure insist inspire install integrate
intend interest interview introduce invent invest investigate invite involve iron jog join joke journal
judge juggle jump kick kill kiss knit knock lack land last laugh launch lift like limit link list listen
live load locate lock look love lower maintain manage march mark marry master match matter measure
meditate mention mentor merge mind miss mix monitor motivate move name need negotiate note notice nurture
obtain occur offer open operate oppose optimize order organize originate overlook owe own pack paint park
participate pass pause perform persuade pick pitch place plan plant play please point polish post pour
practice practise pray prefer prepare present preserve press pretend prevent print produce program
progress promise promote propose protect prove provide publish pull purchase pursue push qualify question
rain raise reach react realize rebuild recall receive recommend record recover reduce refer reflect refuse
regret reject relate relax release rely remain remember remind remodel remove renovate rent repair repeat
replace reply report represent request require rescue research resemble reserve reside resolve respect
respond rest restore result retire return reveal review revise reward rock roll rub ruin rush save scan
scare schedule score scream search seem select separate serve settle share shift ship shop shout sign
skate skip ski slow smell smile smoke snap snow solve sort sound stay start state step stop store stream
stress stretch struggle study submit succeed suck suffer suggest suit supply support suppose surf surprise
surround survive suspect switch tackle talk target taste tend test text thank tie tour touch track trade
train transfer transform translate travel treat trip trust try turn type unwind update upgrade upload urge
use value vary view visit volunteer vote wait walk wander want warm warn wash waste watch water wave
welcome whip wish wonder work worry wrap yell compile execute configure confuse document draft encode
format import index initialize inject log modify parse process query redirect refactor render retrieve
route simulate store structure tune validate verify
"""

_DOUBLING: Final = word_set(
    "admit chat commit drop grab hop hug jog log occur plan prefer program refer regret rub scan",
    "ship shop skip snap  step stop submit transfer trip whip wrap pin pet nap hum beg rip tap",
    "swap trim cancel travel enroll",
)

AUXILIARIES: Final = word_set(
    "is are was were am be been being has have had do does did will would can could should may",
    "might must shall  isn't aren't wasn't weren't hasn't haven't hadn't don't doesn't didn't",
    "won't wouldn't can't cannot couldn't  shouldn't mightn't mustn't",
)

_THIRD_IRREGULAR: Final = {"be": "is", "have": "has", "do": "does", "go": "goes"}


def _regular_past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeou":
        return base[:-1] + "ied"
    return base + (base[-1] if base in _DOUBLING and base[-1] != base[-2] else "") + "ed"


def past(base: str) -> str:
    """The regular past form of a verb's base form."""
    return _regular_past(base)


def _gerund(base: str) -> str:
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")) and base != "be":
        return base[:-1] + "ing"
    short = (
        len(base) < 5 and base[-1] not in "aeiouwxy" and base[-2] in "aeiou" and base[-3:-2] not in "aeiou"
    )
    doubles = (short or base in _DOUBLING or base in ("begin", "forget", "split", "upset")) and base[
        -1
    ] != base[-2]
    return base + (base[-1] if doubles and base not in ("open", "edit") else "") + "ing"


def third_person(base: str) -> str:
    """The form after "he" or "she" of a verb's base form."""
    if base in _THIRD_IRREGULAR:
        return _THIRD_IRREGULAR[base]
    if base.endswith("y") and base[-2:-1] not in "aeou":
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "x", "z", "ch", "sh", "o")) else "s")


class _Forms(NamedTuple):
    bases: set[str]
    thirds: set[str]
    pasts: set[str]
    participles: set[str]
    gerunds: set[str]


def _build() -> _Forms:
    forms = _Forms({"am", "are"}, set(), {"were"}, {"got"}, {"travelling", "cancelling"})
    for row in _IRREGULAR.split(";"):
        base, past, participle = row.split()
        forms.bases.add(base)
        forms.pasts.add(past)
        forms.participles.add(participle)
    for base in _REGULAR.split():
        forms.bases.add(base)
        forms.pasts.add(_regular_past(base))
    for past in ("burned", "dreamed", "learned", "travelled", "cancelled", "enrolled"):
        forms.pasts.add(past)
    forms.participles.update(past for past in forms.pasts if past.endswith("ed"))
    for base in forms.bases - {"am", "are"}:
        forms.thirds.add(third_person(base))
        forms.gerunds.add(_gerund(base))
    return forms


_FORMS: Final = _build()
THIRDS: Final = frozenset(_FORMS.thirds)
PARTICIPLES: Final = frozenset(_FORMS.participles)
GERUNDS: Final = frozenset(_FORMS.gerunds)
# What "cut" or "put" is cannot be told from its form: in neither of these two.
BASES: Final = frozenset(_FORMS.bases - _FORMS.pasts)
PASTS: Final = frozenset(_FORMS.pasts - _FORMS.bases - _FORMS.thirds)
FINITE: Final = frozenset(_FORMS.bases | _FORMS.thirds | _FORMS.pasts) | AUXILIARIES
# Every known form of every known verb.
FORMS: Final = FINITE | PARTICIPLES | GERUNDS
THIRD_OF: Final[dict[str, str]] = {word: third_person(word) for word in BASES} | {"am": "is", "are": "is"}


def _bases() -> dict[str, str]:
    """The base of every irregular form."""
    found = {"am": "be", "are": "be", "is": "be", "were": "be", "got": "get"}
    found |= {third: base for base, third in _THIRD_IRREGULAR.items()}
    for row in _IRREGULAR.split(";"):
        base, *forms = row.split()
        found.update({form: base for form in forms if form not in BASES})
    return found


BASE_OF: Final = _bases()
