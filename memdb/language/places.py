"""Names of countries, regions and large cities, enough to tell a place from a person."""

from __future__ import annotations

from typing import Final

from memdb.language.words import word_set

_COUNTRIES: Final = """
afghanistan; albania; algeria; andorra; angola; argentina; armenia; australia; austria; azerbaijan;
bahamas; bahrain; bangladesh; barbados; belarus; belgium; belize; benin; bhutan; bolivia; bosnia;
botswana; brazil; brunei; bulgaria; burkina faso; burundi; cambodia; cameroon; canada; cape verde; chile;
china; colombia; comoros; congo; costa rica; croatia; cuba; cyprus; czechia; czech republic; denmark;
djibouti; dominican republic; ecuador; egypt; el salvador; eritrea; estonia; eswatini; ethiopia; fiji;
finland; france; gabon; gambia; germany; ghana; greece; greenland; grenada; guatemala; guinea; guyana;
haiti; honduras; hungary; iceland; india; indonesia; iran; iraq; ireland; israel; italy; ivory coast;
jamaica; japan; kazakhstan; kenya; kosovo; kuwait; kyrgyzstan; laos; latvia; lebanon; lesotho; liberia;
libya; liechtenstein; lithuania; luxembourg; madagascar; malawi; malaysia; maldives; mali; malta;
mauritania; mauritius; mexico; moldova; monaco; mongolia; montenegro; morocco; mozambique; myanmar;
namibia; nepal; netherlands; holland; new zealand; nicaragua; niger; nigeria; north korea;
north macedonia; norway; oman; pakistan; panama; palestine; papua new guinea; paraguay; peru; philippines;
poland; portugal; qatar; romania; russia; rwanda; saudi arabia; senegal; serbia; seychelles; sierra leone;
singapore; slovakia; slovenia; somalia; south africa; south korea; korea; south sudan; spain; sri lanka;
sudan; suriname; sweden; switzerland; syria; taiwan; tajikistan; tanzania; thailand; tibet; togo;
trinidad; tunisia; turkmenistan; uganda; ukraine; united arab emirates; uae; united kingdom; uk; england;
scotland; wales; northern ireland; united states; united states of america; usa; us; u.s; u.s.a; america;
uruguay; uzbekistan; vatican; venezuela; vietnam; yemen; zambia; zimbabwe; africa; antarctica; asia;
europe; north america; south america; latin america; central america; oceania; middle east; scandinavia;
balkans; caribbean; mediterranean; alps; himalayas; andes; rockies; siberia; puerto rico; hong kong
"""

_REGIONS: Final = """
alabama; alaska; arizona; arkansas; california; colorado; connecticut; delaware; florida; hawaii; idaho;
illinois; indiana; iowa; kansas; kentucky; louisiana; maine; maryland; massachusetts; michigan; minnesota;
mississippi; missouri; montana; nebraska; nevada; new hampshire; new jersey; new mexico; new york;
north carolina; north dakota; ohio; oklahoma; oregon; pennsylvania; rhode island; south carolina;
south dakota; tennessee; texas; utah; vermont; west virginia; wisconsin; wyoming; ontario; quebec;
british columbia; alberta; nova scotia; bavaria; catalonia; andalusia; tuscany; sicily; sardinia;
provence; normandy; brittany; crete; bali; cornwall; yorkshire; new england; silicon valley; queensland;
new south wales; tasmania; kerala; goa; okinawa
"""

_CITIES: Final = """
abu dhabi; accra; addis ababa; adelaide; ahmedabad; albuquerque; alexandria; algiers; amman; amsterdam;
ankara; antwerp; athens; atlanta; auckland; austin; baghdad; baku; baltimore; bangalore; bengaluru;
bangkok; barcelona; basel; beijing; beirut; belfast; belgrade; berkeley; berlin; bern; birmingham; bogota;
bogotá; bologna; bombay; bordeaux; boston; bratislava; brisbane; bristol; brooklyn; brussels; bucharest;
budapest; buenos aires; buffalo; cairo; calgary; cambridge; canberra; cape town; caracas; cardiff;
casablanca; charlotte; chennai; chicago; cincinnati; cleveland; cologne; colombo; copenhagen; dakar;
dallas; damascus; delhi; denver; detroit; dhaka; doha; dresden; dubai; dublin; durban; düsseldorf;
edinburgh; edmonton; florence; fort worth; frankfurt; geneva; genoa; glasgow; gothenburg; granada;
guadalajara; guangzhou; hamburg; hanoi; harare; havana; helsinki; ho chi minh city; honolulu; houston;
hyderabad; indianapolis; istanbul; jacksonville; jaipur; jakarta; jeddah; jerusalem; johannesburg; kabul;
kampala; kansas city; karachi; kathmandu; kiev; kyiv; kigali; kinshasa; kolkata; krakow; kuala lumpur;
kyoto; lagos; lahore; las vegas; leeds; leipzig; lima; lisbon; liverpool; ljubljana; london; los angeles;
louisville; luanda; lucerne; lyon; madrid; malmö; manchester; manhattan; manila; marrakech; marseille;
medellín; medellin; melbourne; memphis; mexico city; miami; milan; milwaukee; minneapolis; minsk;
montevideo; montreal; moscow; mumbai; munich; nairobi; naples; nashville; new delhi; new orleans;
new york city; nyc; newcastle; nice; oakland; oklahoma city; omaha; orlando; osaka; oslo; ottawa; oxford;
palermo; palo alto; paris; perth; philadelphia; phnom penh; phoenix; pittsburgh; porto; portland; prague;
pretoria; quito; raleigh; reykjavik; riga; rio de janeiro; riyadh; rome; rotterdam; sacramento;
salt lake city; salvador; salzburg; san antonio; san diego; san francisco; san jose; santa cruz; santa fe;
santiago; sao paulo; são paulo; sapporo; sarajevo; seattle; seoul; seville; shanghai; shenzhen; sofia;
st. louis; stockholm; strasbourg; stuttgart; sydney; taipei; tallinn; tampa; tangier; tbilisi; tehran;
tel aviv; tokyo; toronto; toulouse; tripoli; tucson; tulsa; tunis; turin; valencia; vancouver; venice;
verona; vienna; vilnius; warsaw; washington; washington, d.c; washington dc; wellington; winnipeg;
yerevan; zagreb; zaragoza; zürich; zurich; yosemite; yellowstone; grand canyon; central park;
times square; disneyland; hollywood; niagara falls; lake tahoe; mount fuji; mount everest; machu picchu
"""


def _names(rows: str) -> frozenset[str]:
    return frozenset(name.strip() for name in rows.replace("\n", "").split(";"))


PLACES: Final = _names(_COUNTRIES) | _names(_REGIONS) | _names(_CITIES)
# Places whose names in lower case are other words, or first names.
_CAPITALISED_ONLY: Final = word_set(
    "us uk austin florence sofia charlotte phoenix buffalo alexandria memphis jordan chad turkey",
    "nice reading georgia  virginia maine goa mali niger oman cuba benin lima basel salvador",
    "orlando santiago sydney victoria verona lyon  valencia america",
)


def is_place(name: str) -> bool:
    """Whether the gazetteer knows a name; in lower case only where it can mean nothing else."""
    low = name.lower()
    return low in PLACES and (low not in _CAPITALISED_ONLY or name != low)
