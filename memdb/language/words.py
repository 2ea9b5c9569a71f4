"""Closed classes of English words, and the open ones that carry no topic: what a claim's content is
measured against.
"""

from __future__ import annotations

from typing import Final


def word_set(*rows: str) -> frozenset[str]:
    """The words of some rows of text."""
    return frozenset(" ".join(rows).split())


PRONOUNS: Final = word_set(
    "i me my mine myself you your yours yourself yourselves he him his himself she her hers herself",
    "it its itself we us our ours ourselves they them their theirs themselves this that these those",
    "who whom whose which what someone anyone everyone nobody something anything everything nothing",
    "one ones somebody anybody everybody others other another each both either neither such there",
    "here",
)
DETERMINERS: Final = word_set(
    "a an the this that these those my your his her its our their some any no every each all both",
    "either neither another which whose what such",
)
PREPOSITIONS: Final = word_set(
    "about above across after against along amid among around as at before behind below beneath",
    "beside besides between beyond by despite down during except for from in inside into like near of",
    "off on onto out outside over past per since than through throughout to toward towards under",
    "underneath until till unlike up upon due via with within without including",
)
CONJUNCTIONS: Final = word_set(
    "and or but nor so yet if when whenever while because although though unless whereas whether"
)
AUXILIARIES: Final = word_set(
    "am is are was were be been being has have had having do does did done doing will would shall",
    "should can could may might must cannot ought need isn't aren't wasn't weren't hasn't haven't",
    "hadn't don't doesn't didn't won't wouldn't can't couldn't shouldn't mustn't ain't gonna wanna",
    "gotta let's lets",
)
QUESTION_WORDS: Final = word_set("who whom whose what which when where why how")
CONTRACTIONS: Final = word_set(
    "i'm i've i'll i'd you're you've you'll you'd he's he'll he'd she's she'll she'd it's it'll it'd",
    "we're we've we'll we'd they're they've they'll they'd that's that'll there's here's what's who's",
    "where's how's when's let's y'all",
)
ADVERBS: Final = word_set(
    "not never always often usually sometimes rarely seldom ever also too only just even still",
    "already again almost really very quite pretty rather so much more most less least many few lot",
    "lots bit now then soon later once twice maybe perhaps probably possibly definitely certainly",
    "absolutely totally completely especially particularly mostly mainly actually honestly basically",
    "literally finally eventually recently lately currently together instead however therefore anyway",
    "though otherwise hopefully else away back far forward apart well enough kinda sorta kind sort",
    "ago yet right sure exactly truly simply super extra nearly about around first last next early",
    "late further",
)
TIME_WORDS: Final = word_set(
    "today tonight yesterday tomorrow morning afternoon evening night noon day days week weeks",
    "weekend weekends month months year years time times hour hours minute minutes moment while",
    "january february march april may june july august september october november december monday",
    "tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays",
    "saturdays sundays spring summer autumn fall winter ago",
)
# Greetings, thanks, interjections and words of praise: a sentence of nothing else says nothing to remember.
REACTIONS: Final = word_set(
    "hi hello hey hiya howdy yo greetings welcome bye goodbye cheers thanks thank thx ty please sorry",
    "pardon excuse ok okay yes yeah yep yup ya nah no nope sure indeed true wow woah whoa oh ooh ah",
    "aw aww awww ha haha hahaha hehe lol lmao omg gosh yay yikes hmm hm uh um er well great good nice",
    "cool awesome amazing wonderful fantastic incredible excellent brilliant lovely beautiful sweet",
    "neat impressive perfect fabulous stunning gorgeous terrific superb congrats congratulations",
    "kudos bravo glad fun funny interesting inspiring better best fine alright bless luck absolutely",
    "definitely totally exactly certainly agreed woohoo yum yummy hooray hurray woo phew ouch oops",
    "ugh damn jeez voila dude man bro buddy pal guys folks friend friends everyone powerful helpful",
    "kind thoughtful special important worth happy exciting excited cute adorable big dear thumbs",
)
# Verbs and nouns too general to be a topic.
WEAK: Final = word_set(
    "be is are was were been have has had do does did get gets got gotten getting go goes went gone",
    "going make makes made making take takes took taken taking see sees saw seen seeing know knows",
    "knew known knowing think thinks thought thinking say says said saying tell tells told telling",
    "want wants wanted wanting look looks looked looking sound sounds sounded feel feels felt feeling",
    "hear hears heard hearing mean means meant let lets keep keeps kept keeping come comes came",
    "coming give gives gave given giving put puts try tries tried trying use uses used using need",
    "needs needed hope hopes hoped hoping wish wait waiting believe guess bet love loves loved like",
    "likes liked enjoy start started starting catch stay stop help helps helped helping seem seems",
    "seemed talk talking chat work working works worked bring brings brought share shares shared sharing",
    "happen happens happened wonder care imagine forget remember show shows showed find finds found",
    "become becomes became turn turns turned call called thing things stuff way ways lot lots people",
    "person guy someone something anything part kind sort bit news idea reason point case question",
    "questions sense fact life world place end side day days time times deal job chance example",
    "yourself",
)
# Adjectives dropped from the front of a noun phrase.
VAGUE_ADJECTIVES: Final = word_set(
    "good great nice new old big small little long short many much few several various different same",
    "other own whole real certain sure able possible important special favorite favourite best better",
    "worst bad huge large tiny amazing awesome beautiful wonderful lovely cool fun funny happy sad",
    "great incredible fantastic perfect such first last next main full entire available recent",
    "current specific general common hard easy free ready top high low early late really very super",
    "pretty quite so too more most less least two three four five six seven eight nine ten couple",
    "gorgeous stunning cute sweet inspiring exciting interesting strong great unique some any all",
    "each every both half one glad proud grateful thankful excited tired stressed busy nervous scared",
    "worried upset relieved surprised lucky overwhelmed impressed curious interested amazed thrilled",
    "passionate keen eager willing similar tough difficult",
)

FUNCTION: Final = (
    PRONOUNS
    | DETERMINERS
    | PREPOSITIONS
    | CONJUNCTIONS
    | AUXILIARIES
    | QUESTION_WORDS
    | CONTRACTIONS
    | ADVERBS
)
# A sentence whose words are all of these holds no claim.
EMPTY: Final = FUNCTION | REACTIONS | WEAK | TIME_WORDS
# Words that never are, or begin, a topic.
STOP: Final = FUNCTION | REACTIONS | WEAK | TIME_WORDS

# Places one can be at, without a name of their own.
COMMON_PLACES: Final = word_set(
    "airport apartment bakery bank bar beach cabin cafe café campground campsite campus canyon castle",
    "cathedral church cinema clinic club coast college countryside court desert downtown farm forest",
    "gallery garden gym harbor hall hospital hostel hotel house island kitchen lake library mall",
    "market mosque mountain mountains museum neighborhood office park pharmacy playground pool port",
    "pub resort restaurant river salon school shelter shop stadium station store studio suburb",
    "supermarket synagogue temple theater theatre town trail university valley village vineyard",
    "waterfall woods zoo home",
)

# What a name of a place often ends in.
PLACE_HEADS: Final = word_set(
    "airport avenue bay beach boulevard bridge canyon castle cathedral church city coast college",
    "county creek desert falls forest garden gardens glacier harbor heights hill hills hospital hotel",
    "house island islands lake lane library market mountain mountains museum ocean park peninsula",
    "plaza province reef republic river road school sea square state stadium station street temple",
    "theater theatre tower town trail university valley village zoo",
)
# Verbs after which "to" and "from" lead to places.
MOTION: Final = word_set(
    "go goes going went gone move moves moved moving travel travels traveled travelled traveling",
    "travelling fly flies flew flying drive drives drove driving trip trips flight return returned",
    "returning relocate relocated came come coming drove visit visiting head headed heading commute",
    "back hail hails originally journey cruise train bus",
)

# Common words of German, French, Spanish, Italian and Portuguese that are not English words too.
FOREIGN: Final = word_set(
    "ich du wir ihr und nicht ist sind der das ein eine einen mein meine meinen mit für auf zu von",
    "habe hat dem den im zum zur auch aber wie was war sehr gestern heute bin mich dich sich noch",
    "nach bei oder wenn es je tu il elle nous vous et le les une des du est suis ai mon ma mes pas",
    "pour avec dans au aux ce cette qui que yo él ella nosotros y el los las una es soy está mi mis",
    "con para en por muy pero como estoy tengo fui io lui lei noi gli è sono mio mia per di che non",
    "ho della del nel sono stato anche molto mi ti eu você ele ela nós os um uma é sou meu minha com",
    "em não muito mas estou tenho fui foi na da dos ao",
)
